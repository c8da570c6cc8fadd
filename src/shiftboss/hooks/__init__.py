"""What refuses while the work goes on: hooks of agents and of git, with the standard library alone.

A hook is a process that an agent waits for, so it imports little and starts in milliseconds.
"""
