"""The files that a run keeps of its attempts: records, logs and the agents' output."""
