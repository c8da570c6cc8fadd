"""Runs of plans in the store, and the deletion of old rows."""
