"""Canaries: tests that we sabotage, which an honest run then reports as failed."""
