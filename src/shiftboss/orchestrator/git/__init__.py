"""Git in the user's own repositories: the runner, refs, checkouts."""
