"""What the doctor and the invariants read from the store."""
