"""The wire formats: requests, responses, events and files, as types that validate themselves.

Pydantic types and their limits belong here. Decisions about them belong in `rules`.
"""
