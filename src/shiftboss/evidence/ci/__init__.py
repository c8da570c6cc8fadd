"""What CI says about a commit.

`provider.py` holds the port of a CI provider and the table in which every provider is registered.
`forges/` has one module per forge (Forgejo and Gitea, GitHub); `forge_api/` is what they share:
access, HTTP, rate limits, rows, reports. `local/` runs jobs on this machine. `webhooks.py` reads
what forges send.

To add a provider, such as GitLab: write `forges/gitlab.py` with a class that fulfils `CiProvider`,
register it in `provider.FORGES`, allow its name in `protocol.policy.CiPolicy.provider`, and name
the headers of its webhooks in `webhooks.py`.
"""
