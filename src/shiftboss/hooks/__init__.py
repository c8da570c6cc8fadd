"""Hooks of agents and of git, which refuse what the contract of a task does not allow.

A hook is a process that an agent waits for. It uses the standard library only, imports little and
starts in milliseconds.
"""
