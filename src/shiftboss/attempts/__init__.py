"""What the folder of a run keeps of its attempts: records, logs, and what the agents said."""
