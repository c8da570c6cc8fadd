"""The completion contract: milestones, how they are written on a line, and the other requests."""
