"""Backups of a store: made while servers run, verified, and restored while none does."""
