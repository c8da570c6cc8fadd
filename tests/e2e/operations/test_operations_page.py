"""The operations page can be followed: every block that can be executed is, in its order."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands import Done
from tests.e2e.operations.deployment import WAIT_SECONDS, Deployment, succeeded, write_private
from tests.e2e.operations.page import Block, blocks
from tests.postgres import Postgres
from tests.repos import Repo
from tests.sqlite_files import make_sqlite_file
from tests.waiting import wait_until

EXECUTED = ("bash", "sql", "yaml")


class Reader:
    """Somebody who follows the page."""

    def __init__(self, deployment: Deployment) -> None:
        self.deployment = deployment
        self.left = [block for block in blocks() if block.language in EXECUTED]
        self._profile = ""

    def follow(self, heading: str) -> str:
        """Execute the next blocks, all of them below this heading. Returns their output."""
        output = ""
        assert self.left[0].heading == heading
        while self.left and self.left[0].heading == heading:
            output += self._execute(self.left.pop(0))
        return output

    def _execute(self, block: Block) -> str:
        first = block.text.splitlines()[0]
        if block.language == "sql":
            self.deployment.sql(block.text)
            return ""
        if block.language == "yaml":
            (self.deployment.work / first.removeprefix("# ")).write_text(block.text)
            return ""
        if first.startswith("export "):
            self._profile = block.text
            return ""
        if first.startswith("# ") and "server" in first:
            servers = self.deployment.servers[: 1 if "on a server" in first else None]
            return "".join(self.deployment.on_server(block.text, server) for server in servers)
        return succeeded(self.shell(block.text))

    def shell(self, text: str) -> Done:
        return self.deployment.shell(self._profile + text)

    def json(self, command: str) -> dict[str, object]:
        answer: dict[str, object] = json.loads(succeeded(self.shell(f"{command} --json")))
        return answer

    def wait_until_servers_agree(self) -> None:
        wait_until(self._agree, "the servers agree", WAIT_SECONDS)

    def _agree(self) -> bool:
        differences = self.json("shiftboss servers").get("differences", [])
        assert isinstance(differences, list)
        return {each["severity"] for each in differences} <= {"information"}

    def is_accepted(self, token_file: str) -> bool:
        return self.shell(f"shiftboss swarm list --token-file {token_file}").code == 0


@pytest.fixture
def reader(postgres: Postgres, tmp_path: Path) -> Iterator[Reader]:
    deployment = Deployment(postgres, tmp_path)
    try:
        yield Reader(deployment)
    finally:
        deployment.close()


@pytest.mark.requirement("OWN-05", "OWN-06")
def test_the_page_can_be_followed(reader: Reader) -> None:
    deployment, work = reader.deployment, reader.deployment.work
    _first_setup(reader)
    reader.follow("A second server")
    reader.follow("Changing the policy")
    reader.wait_until_servers_agree()
    _rotation(reader)
    reader.follow("Upgrades")
    _backups(reader)
    reader.follow("Disk")
    assert "web" in reader.follow("Retention")
    assert '"alice"' in reader.follow("Logs and audit")
    assert deployment.servers[0].log_count("debug -> info") == 1
    reader.follow("Monitoring")
    findings = json.loads((work / "doctor.json").read_text())["findings"]
    assert {"server", "store", "claims"} <= {finding["check"] for finding in findings}
    assert not reader.left
    for server in deployment.servers:
        server.stop()


def _first_setup(reader: Reader) -> None:
    deployment, work = reader.deployment, reader.deployment.work
    reader.follow("1. The database")
    reader.follow("3. The operator's token")
    deployment.start_servers(work / "operator-token")
    reader.follow("4. Your own account")
    reader.follow("5. Tokens for everybody")
    write_private(work / "wrong.token", f"sbt_{'x' * 40}")
    assert not reader.is_accepted("wrong.token")
    assert reader.is_accepted("ben.token")
    assert reader.shell("shiftboss token list --token-file ben.token").code == 1
    deployment.start_verifier(work / "verify-1.token")
    reader.follow("7. The policy")
    Repo(deployment.home / "src" / "app", has_task=False)
    assert "task_cancelled" in reader.follow("8. Everybody else")
    events = succeeded(reader.shell("shiftboss events web --json")).splitlines()
    assert {json.loads(event)["actor"] for event in events} == {"alice"}
    wait_until(
        lambda: "verify-1" in json.dumps(reader.json("shiftboss claim list")["verifiers"]),
        "the verifier is there",
        WAIT_SECONDS,
    )


def _rotation(reader: Reader) -> None:
    work = reader.deployment.work
    reader.follow("Named tokens")
    assert reader.is_accepted("ben.token")
    assert reader.is_accepted("ben.new")
    old = (work / "operator-token").read_text()
    reader.follow("The operator's token")
    write_private(work / "operator-token.old", old)
    lists = "env -u SHIFTBOSS_TOKEN_FILE shiftboss token list --operator-token-file"
    assert reader.shell(f"{lists} operator-token").code == 0
    assert reader.shell(f"{lists} operator-token.old").code == 1
    reader.wait_until_servers_agree()
    reader.follow("The signing key")
    wait_until(lambda: _keys(reader) == [False, False, True], "there is a new key", WAIT_SECONDS)
    certificate = reader.deployment.new_certificate()
    certificate.cert.rename(work / "new-tls.crt")
    certificate.key.rename(work / "new-tls.key")
    reader.follow("The certificate")
    assert reader.is_accepted("ben.new")


def _keys(reader: Reader) -> list[bool]:
    """Of each, whether it is retired."""
    keys = reader.json("shiftboss receipt keys")["keys"]
    assert isinstance(keys, list)
    return sorted("retired_at" in key for key in keys)


def _backups(reader: Reader) -> None:
    deployment, work = reader.deployment, reader.deployment.work
    (work / "backups").mkdir()
    reader.follow("Backups")
    reader.follow("The drill")
    succeeded(reader.shell("shiftboss task add later --swarm web --title 'After the backup'"))
    reader.follow("When it is serious")
    assert deployment.verifier is not None
    assert reader.shell("shiftboss task show later --swarm web").code == 1
    assert reader.is_accepted("ben.new")
    (work / "solo").mkdir()
    make_sqlite_file(work / "solo" / "shiftboss.db")
    reader.follow("SQLite")
