"""What the servers of a deployment share, on the wire: keys, and each other."""
