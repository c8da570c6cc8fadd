"""The worker library: SwarmWorker, BusWorker, checkpoints, the outbox, direct calls."""
