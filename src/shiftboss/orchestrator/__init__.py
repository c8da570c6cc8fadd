"""Runs a plan: work trees, agents, supervision and landing. Reaches the server over HTTP only."""
