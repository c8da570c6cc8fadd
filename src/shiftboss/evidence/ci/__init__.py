"""The results of CI for a commit.

`provider.py` holds the port of a CI provider and the table in which every provider is registered.
`forges/` has one module per forge (Forgejo and Gitea, GitHub); `forge_api/` is what they share:
access, HTTP, rate limits, rows, reports. `local/` runs jobs on this machine. `webhooks.py` reads
what forges send.

A new provider is one module in `forges/`, registered in `provider.FORGES`; AGENTS.md lists the
other places.
"""
