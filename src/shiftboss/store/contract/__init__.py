"""Packets, milestones, repo locks, chains and failures in the store."""
