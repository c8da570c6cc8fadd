"""What the servers of one database share, on both stores."""
