"""What the operating system offers: child processes, git, files, file locks, cancellation.

Used by evidence, the orchestrator and the worker library; knows nothing of swarms and tasks.
"""
