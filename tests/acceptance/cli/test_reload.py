"""SIGHUP: a server reads its files again, and goes on."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from tests.client import Client
from tests.commands import shiftboss
from tests.running import RunningServer
from tests.waiting import wait_until

pytestmark = pytest.mark.requirement("OWN-06")

OLD, NEW = "old-token-0123456789", "new-token-0123456789"


def write_private(path: Path, text: str) -> Path:
    path.touch(mode=0o600)
    path.write_text(text)
    return path


@pytest.fixture
def policy_file(tmp_path: Path) -> Path:
    file = tmp_path / "shiftboss.yaml"
    file.write_text("timeouts: {worker: 1200}\n")
    return file


def status_with(server: RunningServer, token: str) -> int:
    """On a connection of its own, and again on the same: the second has a known head."""
    client = Client(server.url, token=token)
    try:
        codes = {client.post("/bus/get_status", {}).status_code for _ in range(2)}
    finally:
        client.close()
    (code,) = codes
    return code


def hang_up(server: RunningServer, logged: str) -> None:
    before = server.log.count(logged)
    os.kill(server.pid, signal.SIGHUP)
    wait_until(lambda: server.log.count(logged) > before, f"it logs {logged!r}")


@pytest.mark.parametrize("fast_path", [True, False])
def test_tokens_are_rotated_without_a_restart(
    tmp_path: Path, sqlite_path: str, *, fast_path: bool
) -> None:
    file = write_private(tmp_path / "token", f"{OLD}\n")
    server = RunningServer(sqlite_path, token=OLD, token_file=str(file), fast_path=fast_path)
    try:
        server.start()
        kept = Client(server.url, token=OLD)
        assert kept.post("/bus/get_status", {}).status_code == 200
        write_private(file, f"{NEW}\n{OLD}\n")
        assert status_with(server, NEW) == 401
        hang_up(server, "1 added, 0 removed, 2 accepted now")
        assert {status_with(server, token) for token in (OLD, NEW)} == {200}
        asked = shiftboss("status", "--token-file", str(file), url=server.url)
        assert asked.code == 0, asked.err
        file.write_text("")
        hang_up(server, "tokens stays as it was")
        assert status_with(server, NEW) == 200
        write_private(file, f"{NEW}\n")
        hang_up(server, "0 added, 1 removed, 1 accepted now")
        assert (status_with(server, OLD), status_with(server, NEW)) == (401, 200)
        assert kept.post("/bus/get_status", {}).status_code == 401, "its head was known"
        kept.close()
        assert OLD not in server.log
        assert NEW not in server.log
        server.stop()
    finally:
        server.close()


def test_the_policy_and_the_operators_token_are_read_again(
    sqlite_path: str, policy_file: Path
) -> None:
    server = RunningServer(sqlite_path, policy=str(policy_file))
    try:
        server.start()
        policy_file.write_text("timeouts: {worker: 3600}\n")
        operator = Path(sqlite_path).parent / "operator-token"
        write_private(operator, f"{NEW}\n{operator.read_text()}")
        hang_up(server, "timeouts.worker: 1200 -> 3600")
        assert "the operator's token: 1 added, 0 removed, 2 accepted now" in server.log
        client = Client(server.url)
        view = client.post("/bus/show_policy", {}).json()
        assert (view["version"], view["policy"]["timeouts"]["worker"]) == (2, 3600)
        body = json.dumps({"body": "", "source": "/p.yaml", "expected_version": 1})
        headers = {"Shiftboss-Operator": NEW, "Content-Type": "application/json"}
        answer = client._http.post("/operator/apply_policy", content=body, headers=headers)
        assert answer.status_code == 409, answer.text
        policy_file.write_text("timeouts: [\n")
        hang_up(server, "policy stays as it was")
        assert client.post("/bus/show_policy", {}).json()["version"] == 2
        hang_up(server, "reload: nothing else has changed")
        client.close()
        server.stop()
    finally:
        server.close()
