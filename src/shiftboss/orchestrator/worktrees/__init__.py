"""Git work trees: created for an attempt, and removed without losing anything."""
