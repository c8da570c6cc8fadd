"""Checks of a worker: what it does on the wire, also when the server fails."""
