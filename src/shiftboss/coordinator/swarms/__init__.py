"""Swarms and their packets: registration, progress, errors and retries."""
