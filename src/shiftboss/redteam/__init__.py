"""Replays known hacks against the contracts of a plan, and says what would be accepted."""
