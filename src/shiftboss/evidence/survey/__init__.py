"""Reads a repository to make a handoff: owned files, imports, project setup, context."""
