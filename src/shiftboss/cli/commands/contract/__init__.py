"""Commands of the completion contract: milestones, repos, failures, checkpoints, policy."""
