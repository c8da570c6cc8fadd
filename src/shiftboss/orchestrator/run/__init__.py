"""One run of a plan: bootstrap, progress, starting tasks, the server process."""
