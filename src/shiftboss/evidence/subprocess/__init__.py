"""Runs the evidence in a process of its own, so that the server never forks."""
