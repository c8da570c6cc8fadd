"""Helpers for handoffs: a repository, its server and the operator."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx2

from tests.client import NO_CERTIFICATES, Client
from tests.repos import Repo
from tests.running import RunningServer

HONEST = {"src/auth/login.py": "def login():\n    return 'token'\n"}
GREEDY = {**HONEST, "README.md": "# Mine\n"}
PASSES = "Command passes: grep -q token src/auth/login.py"

# Reports that it runs, then waits for permission to exit.
GATE = """
import pathlib, sys, time
started, go = map(pathlib.Path, sys.argv[1:])
started.touch()
ends_at = time.monotonic() + 60
while not go.exists() and time.monotonic() < ends_at:
    time.sleep(0.01)
"""


class Operator:
    """The operator, who can read the token beside the database."""

    def __init__(self, server: RunningServer) -> None:
        self.token = (Path(server.database).parent / "operator-token").read_text().strip()
        self._url = server.url

    def post(self, name: str, members: object, token: bytes | None = None) -> httpx2.Response:
        return httpx2.post(
            f"{self._url}/operator/{name}",
            json=members,
            headers={b"Shiftboss-Operator": self.token.encode() if token is None else token},
            timeout=30,
            trust_env=False,
            verify=NO_CERTIFICATES,
        )

    def does(self, name: str, **members: object) -> dict[str, Any]:
        response = self.post(name, members)
        assert response.status_code == 200, response.text
        answer: dict[str, Any] = response.json()
        return answer


def complete(client: Client, bead_id: str, **members: object) -> httpx2.Response:
    return client.post("/bus/swarm_complete", {"bead_id": bead_id, **members})


def honest(repo: Repo) -> str:
    return repo.commit("work", HONEST)


def greedy(repo: Repo) -> str:
    """Work outside the files that the task owns."""
    return repo.commit("work", GREEDY)


def start_over(repo: Repo) -> None:
    """Every commit is checked, so a forbidden change has to leave the history."""
    repo.git("reset", "--quiet", "--hard", repo.base)


def all_text(*answers: httpx2.Response | dict[str, Any] | str) -> str:
    return "\n".join(
        one.text if isinstance(one, httpx2.Response) else json.dumps(one) for one in answers
    )
