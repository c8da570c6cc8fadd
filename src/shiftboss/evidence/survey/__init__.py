"""Reads a repository to make a handoff: ownership, imports, project setup, context."""
