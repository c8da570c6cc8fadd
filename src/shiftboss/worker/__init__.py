"""The worker's side: checkpoints, outbox, delivery, and the backend for direct calls."""
