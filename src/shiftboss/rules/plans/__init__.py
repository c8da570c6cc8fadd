"""Plan files: validation, the task graph, and the schedule of a run."""
