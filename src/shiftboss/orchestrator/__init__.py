"""Running a plan: work trees, agents, supervision and landing. It speaks to the server alone."""
