"""The completion contract: milestones, CI verdicts, timeouts, failures, repo graph, policy file."""
