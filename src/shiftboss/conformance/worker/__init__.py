"""Checks of a worker's behaviour on the wire, also when the server fails."""
