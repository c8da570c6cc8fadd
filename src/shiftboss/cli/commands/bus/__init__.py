"""Commands for tasks, workers and questions."""
