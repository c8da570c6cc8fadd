"""Two servers with separate state folders on one PostgreSQL: what an operator sees and does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx2
import psycopg
import pytest

from shiftboss import __version__
from shiftboss.evidence.keys import KEY_FILE, SigningKey
from tests.commands import Done, shiftboss
from tests.conformance.backends import cut_connections
from tests.fork_server import start_python
from tests.running import RunningServer
from tests.waiting import wait_until

pytestmark = pytest.mark.requirement("OWN-05")


class Pair:
    """The operator works in the state folder of the first one."""

    def __init__(self, one: RunningServer, other: RunningServer, folder: Path) -> None:
        self.one = one
        self.other = other
        self.folder = folder

    def run(self, *arguments: str, server: RunningServer | None = None) -> Done:
        token = (self.folder / "one" / "operator-token").read_text().strip()
        url = (server or self.one).url
        return shiftboss(
            *arguments, url=url, folder=self.folder, SHIFTBOSS_OPERATOR_TOKEN=token, COLUMNS="300"
        )

    def key(self, name: str) -> str:
        return SigningKey.load_or_create(self.folder / name / KEY_FILE).key_id


@pytest.fixture
def pair(postgres_url: str, tmp_path: Path) -> Iterator[Pair]:
    with ExitStack() as running:
        servers = []
        for name in ("one", "other"):
            server = RunningServer(postgres_url, state=str(tmp_path / name))
            running.callback(server.close)
            servers.append(server.start())
        yield Pair(servers[0], servers[1], tmp_path)


def test_the_operator_sees_two_servers_that_differ_and_retires_a_key(pair: Pair) -> None:
    """The second server has seen both when it started."""
    ready = httpx2.get(f"{pair.other.url}/ready").json()
    assert (ready["status"], ready["version"]) == ("ready", __version__)
    assert {each["name"]: each["severity"] for each in ready["differences"]} == {
        "operator_token": "warning",
        "key": "information",
    }
    status = pair.run("status", server=pair.other)
    assert "servers: the operator's token differs between the servers" in status.out
    assert "the operator's token differs" in pair.other.log
    listed = pair.run("servers")
    assert (listed.code, listed.err) == (0, "")
    assert sum("living" in line for line in listed.out.splitlines()) == 2
    assert "SHIFTBOSS_OPERATOR_TOKEN" in listed.out
    findings = json.loads(pair.run("doctor", "--json").out)["findings"]
    about = {found["message"] for found in findings if found["check"] == "servers"}
    assert any("the operator's token differs" in message for message in about)

    former = pair.key("other")
    keys = json.loads(pair.run("receipt", "keys", "--json").out)["keys"]
    assert {key["key_id"] for key in keys} == {former, pair.key("one")}
    retired = pair.run("receipt", "retire-key", former)
    assert (retired.code, retired.err) == (0, "")
    wait_until(lambda: pair.key("other") != former, "the other server has a new key")
    wait_until(
        lambda: pair.key("other") in pair.run("receipt", "keys").out, "the new key is in the store"
    )
    pem = pair.run("receipt", "keys", "--pem").out
    assert pem.count("BEGIN PUBLIC KEY") == 3


def test_a_server_that_stops_says_so(pair: Pair) -> None:
    pair.other.stop()
    document = json.loads(pair.run("servers", "--json").out)
    states = {server["address"]: server["state"] for server in document["servers"]}
    assert states == {pair.one.url: "living", pair.other.url: "stopped"}
    assert document["differences"] == []


def test_servers_with_one_key_file_sign_with_one_key(postgres_url: str, tmp_path: Path) -> None:
    key_file = tmp_path / "deployment.pem"
    with ExitStack() as running:
        for name in ("one", "other"):
            server = RunningServer(postgres_url, state=str(tmp_path / name), key_file=str(key_file))
            running.callback(server.close)
            server.start()
        listing = httpx2.post(f"{server.url}/bus/list_receipts", json={}).json()
        (key,) = listing["keys"]
        assert key["key_id"] == SigningKey.load_or_create(key_file).key_id
        assert key_file.stat().st_mode & 0o777 == 0o600
        assert not (tmp_path / "one" / KEY_FILE).exists()


@pytest.mark.parametrize(
    ("mode", "folder", "reason"),
    [(0o644, ".", "Other users can read the signing key"), (0o600, "gone", "there is no folder")],
)
def test_a_key_file_that_cannot_be_used_is_refused(
    sqlite_path: str, tmp_path: Path, mode: int, folder: str, reason: str
) -> None:
    key_file = tmp_path / folder / "key.pem"
    if key_file.parent.exists():
        SigningKey.load_or_create(key_file)
        key_file.chmod(mode)
    done = shiftboss("serve", "--db", sqlite_path, "--port", "0", "--key-file", str(key_file))
    assert done.code == 1
    assert reason in done.err


_SERVE_AND_LOOK_OFTEN = """
import json, sys
from shiftboss.coordinator.deployment import presence
from shiftboss.errors import SchemaMismatch
from shiftboss.server.run import ServerSettings, serve
presence.RENEWAL_SECONDS = 0.2
try:
    serve(ServerSettings(**json.loads(sys.argv[1])), lambda url: print(url, flush=True))
except SchemaMismatch as error:
    print(error.detail)
    sys.exit(3)
"""


def test_a_server_that_a_newer_version_has_left_behind_ends(
    postgres_url: str, tmp_path: Path
) -> None:
    settings = json.dumps({"database": postgres_url, "port": 0, "state": str(tmp_path / "state")})
    with start_python(["-c", _SERVE_AND_LOOK_OFTEN, settings]) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"http://")
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute("UPDATE schema_support SET works_since = 9000")
        cut_connections(postgres_url)
        out, _ = process.communicate(timeout=30)
        assert process.wait() == 3
    assert b"it needs servers that know schema version 9000" in out
