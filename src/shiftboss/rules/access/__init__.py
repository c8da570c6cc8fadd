"""Who may do what: actors, roles, permissions."""
