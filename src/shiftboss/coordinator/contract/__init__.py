"""The completion contract: repo locks, milestones, CI, timeouts, failures, recovery."""
