"""One run of a plan: reading it, starting its tasks, its workers, its progress and its server."""
