"""Git in the user's own repositories: the runner, repositories, checkouts, private refs."""
