"""One database file on one machine."""
