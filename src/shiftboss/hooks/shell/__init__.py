"""Reads shell commands without running them, to find out which files they would write."""
