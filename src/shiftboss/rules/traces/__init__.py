"""Traces: the spans of a task, made from its events."""
