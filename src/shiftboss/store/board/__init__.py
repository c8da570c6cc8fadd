"""Rows for the board: what many cards need, in a few queries."""
