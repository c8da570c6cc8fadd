"""Claims: a worker claims that a task is done, a verifier checks it, a verdict decides."""
