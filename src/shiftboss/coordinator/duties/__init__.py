"""What the coordinator does by itself, one file each."""
