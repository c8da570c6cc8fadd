"""Rendering for people: tables and lines. Imported late, because rich is slow to import."""
