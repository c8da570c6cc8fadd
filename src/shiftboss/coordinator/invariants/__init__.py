"""Invariants: true of every store after every commit. The simulator and `shiftboss fsck` check
it."""
