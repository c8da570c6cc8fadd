"""Commands for swarms: create, list, status, events."""
