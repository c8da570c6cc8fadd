"""The order of the tests when several workers run them.

Each worker begins with an equal share of the list, and takes tests from the ends of the shares of
others when it has finished its own. Tests that take many seconds are put at the beginning of the
shares, so that no worker starts a long one when the others have nothing left to do.
"""

from __future__ import annotations

import pytest

LONG = (
    "tests/chaos/",
    "tests/e2e/agents/test_real_agents.py",
    "tests/e2e/agents/test_run_real_agents.py",
    "tests/e2e/bus/test_mcp_clients.py",
    "tests/e2e/conformance/",
    "tests/e2e/hostile/test_openapi.py",
    "tests/e2e/operations/",
    "tests/e2e/redteam/test_corpus.py",
    "tests/e2e/runs/",
    "tests/e2e/team/",
)
# The shares are not exactly those of the workers; a long test must not be at the end of one.
FIRST_SHORT = 10


def long_ones_first(items: list[pytest.Item], workers: int) -> list[pytest.Item]:
    long = [item for item in items if item.nodeid.startswith(LONG)]
    short = [item for item in items if not item.nodeid.startswith(LONG)]
    ordered: list[pytest.Item] = []
    for number in range(workers):
        share = short[len(short) * number // workers : len(short) * (number + 1) // workers]
        ordered += [*share[:FIRST_SHORT], *long[number::workers], *share[FIRST_SHORT:]]
    return ordered
