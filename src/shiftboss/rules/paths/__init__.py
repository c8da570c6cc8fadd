"""Paths of a repository: patterns, overlap, ownership, scope and protected files."""
