"""Shiftboss beside the task queues that people use today, on one job in one run."""
