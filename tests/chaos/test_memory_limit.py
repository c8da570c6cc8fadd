"""A limit on the memory of the real server."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import httpx2
import pytest

from tests.client import Client
from tests.running import RunningServer
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="prlimit is available on Linux"),
    pytest.mark.requirement("OWN-21"),
]

REPORTS = 25
AT_ONCE = 12
# A server without memory may leave a request without an answer.
ANSWER_SECONDS = 1.0
# Too little for all of the reports.
SPARE_BYTES = 100_000


def set_memory_limit(server: RunningServer, spare_bytes: int) -> None:
    pages = int(Path(f"/proc/{server.pid}/statm").read_text().split()[0])
    _, hard = resource.prlimit(server.pid, resource.RLIMIT_AS)
    limit = pages * resource.getpagesize() + spare_bytes
    resource.prlimit(server.pid, resource.RLIMIT_AS, (limit, hard))


def add_task(client: httpx2.Client, number: int) -> int:
    """The status of the answer; 0 without one."""
    body = {"swarm_id": "s", "bead_id": f"t{number}", "title": "T", "description": "x" * 15_000}
    headers = {"Idempotency-Key": f"k{number}"}
    try:
        return client.post("/bus/add_task", json=body, headers=headers).status_code
    except httpx2.HTTPError:
        return 0


def is_added(client: httpx2.Client, number: int) -> bool:
    return add_task(client, number) == 200


@pytest.fixture
def impatient(server: RunningServer) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=server.url, timeout=ANSWER_SECONDS, trust_env=False) as client:
        yield client


def test_what_was_answered_is_there_after_the_memory_ran_out(
    server: RunningServer, client: Client, impatient: httpx2.Client
) -> None:
    client.create_swarm(swarm_id="s")
    set_memory_limit(server, SPARE_BYTES)
    with ThreadPoolExecutor(AT_ONCE) as senders:
        codes = list(senders.map(lambda number: add_task(impatient, number), range(REPORTS)))
    assert set(codes) <= {0, 200, 500, 503}, codes
    assert set(codes) != {200}, "the limit was never reached"

    server.kill()  # it may have ended by itself
    server.start()
    for number, code in enumerate(codes):
        found = client.post("/bus/show_task", {"swarm_id": "s", "bead_id": f"t{number}"})
        assert code != 200 or found.status_code == 200, f"the answered t{number} is lost"
    for number in range(REPORTS):
        wait_until(partial(is_added, impatient, number), "a repeat completes it")
