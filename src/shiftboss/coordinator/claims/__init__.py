"""Claims: a worker says that a task is done, a verifier checks it, the verdict settles it."""
