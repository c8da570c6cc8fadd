"""The operating system: processes, git, files, locks and cancellation."""
