"""Counts requests by the class of their route and by their result.

The fast path counts here, too, so it has to be cheap: one look-up and one addition. It happens on
the event loop alone.
"""

from __future__ import annotations

from typing import Final

# The first part of a path, and what it is counted as. Everything else is `other`, so nobody can
# make up a value.
_ROUTES: Final = {
    "": "page",
    "bus": "bus",
    "operator": "operator",
    "swarm": "swarm",
    "swarms": "swarm",
    "messages": "messages",
    "mcp": "mcp",
    "ci": "webhook",
    "health": "health",
    "ready": "health",
    "metrics": "metrics",
    "static": "page",
    "login": "page",
    "logout": "page",
    "session": "page",
    "changes": "changes",
    "openapi.json": "page",
}
OTHER: Final = "other"
# A client that was gone before it had its response.
_GONE: Final = 499


def route_of(path: str) -> str:
    return _ROUTES.get(path.split("/", 2)[1] if path.startswith("/") else OTHER, OTHER)


def result_of(status: int) -> str:
    return "gone" if status == _GONE else f"{status // 100}xx"


class RequestCounts:
    """`by_status` has the number of requests for each route and status."""

    def __init__(self) -> None:
        self.by_status: dict[tuple[str, int], int] = {}

    def count(self, route: str, status: int) -> None:
        key = (route, status)
        self.by_status[key] = self.by_status.get(key, 0) + 1

    def by_result(self) -> dict[tuple[str, ...], int]:
        """For each route and result."""
        totals: dict[tuple[str, ...], int] = {}
        for (route, status), count in self.by_status.items():
            key = (route, result_of(status))
            totals[key] = totals.get(key, 0) + count
        return totals
