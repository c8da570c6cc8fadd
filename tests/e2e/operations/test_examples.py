"""The examples of the README and of the how-to guides work as written: Python as it stands, and the
commands of a contract from the first one to the receipt."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client import Client
from tests.e2e.operations.reader import Reader, block
from tests.repos import Repo
from tests.running import RunningServer
from tests.waiting import wait_until

README = "README.md"
HOW_TO = "docs/how-to.md"
WORK = {
    "src/auth/keys.py": "def sign_in(key):\n    return 'token'\n",
    "tests/test_auth.py": (
        "from src.auth.keys import sign_in\n"
        "\n"
        "def test_sign_in():\n"
        "    assert sign_in('key') == 'token'\n"
    ),
}


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    server = RunningServer(tmp_path / ".shiftboss" / "shiftboss.db").start()
    try:
        yield Reader(tmp_path, server)
    finally:
        server.close()


@pytest.fixture
def client(reader: Reader) -> Iterator[Client]:
    client = Client(reader.server.url)
    yield client
    client.close()


def done(reader: Reader, script: str, folder: Path | None = None) -> str:
    result = reader.run(script, folder)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.mark.requirement("SW-01")
def test_the_worker_of_the_readme_completes_its_packet(reader: Reader, client: Client) -> None:
    serve, create = block(README, "swarm create").splitlines()
    assert serve.startswith(".venv/bin/shiftboss serve ")
    done(reader, create)
    with reader.start_python(block(README, "SwarmWorker")) as worker:
        _, error = worker.communicate(timeout=60)
    assert worker.returncode == 0, error
    assert client.get("/swarm/swarm-abc123/status").json()["status"] == "complete"


@pytest.mark.requirement("SW-01")
def test_a_packet_is_registered_and_reports_with_curl(reader: Reader, client: Client) -> None:
    done(reader, "shiftboss swarm create --id login --workers-expected 1")
    done(reader, block(HOW_TO, "curl -s http://127.0.0.1:7432/swarm/login/register"))
    (packet,) = client.get("/swarm/login/status").json()["workers"]
    assert (packet["packet_name"], packet["tasks_completed"]) == ("docs", 1)


@pytest.mark.requirement("BUS-01")
def test_tasks_are_handed_out_to_the_worker_in_python(reader: Reader, client: Client) -> None:
    done(reader, block(HOW_TO, 'task add bd-1 --title "Create the schema"'))
    with reader.start_python(block(HOW_TO, "BusWorker")) as worker:
        try:
            wait_until(lambda: finished(client) == {"bd-1", "bd-2"}, "both tasks are done")
        finally:
            worker.kill()
        assert worker.stdout is not None
        printed = worker.stdout.read()
    assert printed == "bd-1 Create the schema\nbd-2 Implement login\n"


def finished(client: Client) -> set[str]:
    tasks = client.post("/bus/list_tasks", {"swarm_id": "default"}).json()["tasks"]
    return {task["bead_id"] for task in tasks if task["status"] == "done"}


@pytest.mark.requirement("SW-01")
def test_events_are_followed_from_a_program(reader: Reader) -> None:
    done(reader, "shiftboss swarm create --id login --workers-expected 1")
    example = block(HOW_TO, "subscribe_events")
    address = '{"host": "127.0.0.1", "port": 7432}'
    assert address in example
    host = {"host": "127.0.0.1", "port": int(reader.server.url.rpartition(":")[2])}
    imports, _, rest = example.replace(address, json.dumps(host)).partition("\n\n")
    body = "\n".join(f"    {line}" for line in rest.splitlines())
    program = f"import asyncio\n{imports}\n\nasync def follow():\n{body}\n\nasyncio.run(follow())"
    with reader.start_python(program) as follower:
        try:
            assert follower.stdout is not None
            assert "swarm_created" in follower.stdout.readline()
        finally:
            follower.kill()


@pytest.mark.requirement("HO-01")
def test_a_contract_is_followed_up_to_its_receipt(reader: Reader, client: Client) -> None:
    repo = Repo(reader.folder / "shop")
    # The Python of criteria has no package metadata, which the header of pytest asks for.
    repo.commit("Settings of the tests", {"pytest.ini": "[pytest]\naddopts = -q\n"})
    asks, grant, owners = block(HOW_TO, "shiftboss scope list").splitlines()
    done(reader, block(HOW_TO, "--target main --criterion"), repo.path)
    client.post("/bus/register_worker", {"name": "w-1"})
    client.post("/bus/poll_task", {"name": "w-1", "timeout_ms": 0, "ack": True})
    done(reader, block(HOW_TO, "scope request bd-7 src/keys.py"), repo.path)
    done(reader, asks, repo.path)
    assert "bd-7" in done(reader, owners, repo.path)
    assert grant.startswith("shiftboss scope grant")

    repo.commit("Sign in with a key", WORK)
    assert "receipt" in done(reader, block(HOW_TO, 'complete bd-7 --summary "Keys'), repo.path)
    done(reader, block(HOW_TO, "bd-7.json --key key.pem"), repo.path)
    in_toto = done(reader, block(HOW_TO, "securesystemslib"), repo.path)
    assert repo.head() in in_toto
    assert "Success" in done(reader, block(HOW_TO, "openssl pkeyutl"), repo.path)
