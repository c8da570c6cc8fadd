"""The demo: runs a plan over three repositories with agents that fail in different ways."""
