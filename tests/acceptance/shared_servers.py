"""Servers that the tests of a module share: each test leaves no swarm behind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import httpx2

from shiftboss.system.state_folder import operator_token
from tests.client import NO_CERTIFICATES, Client
from tests.running import RunningServer


@contextmanager
def client_of_shared(server: RunningServer) -> Iterator[Client]:
    client = Client(server.url)
    try:
        yield client
    finally:
        _delete_swarms(client, server)
        client.close()


def _delete_swarms(client: Client, server: RunningServer) -> None:
    listed = client.get("/swarms", limit=200).json()
    assert listed["next_before"] is None, "so many swarms need a server of their own"
    headers = {"Shiftboss-Operator": operator_token(server.state_folder)}
    for swarm in listed["swarms"]:
        answer = httpx2.post(
            f"{server.url}/operator/delete_swarm",
            json={"swarm_id": swarm["swarm_id"], "force": True},
            headers=headers,
            trust_env=False,
            verify=NO_CERTIFICATES,
        )
        assert answer.status_code == 200, answer.text
