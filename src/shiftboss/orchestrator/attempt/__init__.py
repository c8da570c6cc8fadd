"""One attempt at one task: workspace, agent rounds, the claim."""
