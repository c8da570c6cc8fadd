"""Work trees: made for an attempt, taken down without losing anything."""
