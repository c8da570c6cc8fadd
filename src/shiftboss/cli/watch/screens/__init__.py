"""Textual: the screen, its views and dialogs."""
