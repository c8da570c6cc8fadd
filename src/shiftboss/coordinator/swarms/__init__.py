"""Swarms and their packets: registration, progress, completion, errors and retries."""
