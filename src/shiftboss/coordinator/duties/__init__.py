"""Background jobs of the server, one file each. Most sleep until a time in the store (Timer)."""
