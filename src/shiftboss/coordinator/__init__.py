"""What happens: a use case is one transaction; the hub wakes those who wait."""
