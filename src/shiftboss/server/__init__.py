"""How the coordinator is reached: HTTP and event streams."""
