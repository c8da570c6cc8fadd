"""The history of a swarm: its events, the claims of a task, and the replay of the run."""
