"""Workers, tasks, the queue, leases, questions and salvage of the bus in the store."""
