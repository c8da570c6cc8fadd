"""Thin commands: each asks the running server and shows the answer."""
