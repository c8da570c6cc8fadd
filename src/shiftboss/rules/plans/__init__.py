"""Plans: reading the file, the task graph, and the schedule of a run."""
