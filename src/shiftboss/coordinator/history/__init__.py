"""What has happened in a swarm: its events, the claims of a task, and the run replayed."""
