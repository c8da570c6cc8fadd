"""One attempt at one task: its workspace, the rounds of its agent, its claim."""
