"""Paths: patterns, overlap, ownership, scope and protected files."""
