"""Effects after a commit: log lines, files, notifications, metrics. One module per effect."""
