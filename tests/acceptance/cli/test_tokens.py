"""shiftboss token: made and ended without a server, and with one."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from tests.commands import Done, shiftboss
from tests.running import RunningServer

pytestmark = pytest.mark.requirement("OWN-06")


@pytest.fixture
def folder(tmp_path: Path, sqlite_path: str) -> Path:
    """With a database that no server has open."""
    (tmp_path / ".shiftboss").mkdir(mode=0o700)
    Path(sqlite_path).rename(tmp_path / ".shiftboss" / "shiftboss.db")
    return tmp_path


def run_json(folder: Path, *arguments: str) -> Any:
    done = shiftboss(*arguments, "--json", folder=folder)
    assert done.code == 0, done.err
    return json.loads(done.out)


def test_tokens_are_made_listed_rotated_and_revoked_without_a_server(folder: Path) -> None:
    limits = ("--swarm", "login", "--expires", "30d")
    made = shiftboss("token", "create", "ci", "--role", "worker", *limits, folder=folder)
    assert made.out.startswith("sbt_"), made
    assert "ci, worker, swarm login" in made.err
    file = folder / "ci.token"
    rotated = run_json(folder, "token", "rotate", "ci", "--overlap", "1h", "--out", str(file))
    assert rotated["token"] is None
    assert file.read_text().startswith("sbt_")
    assert file.read_text() != made.out
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    listed = shiftboss("token", "list", folder=folder)
    assert "sbt_" not in listed.out
    assert listed.out.count("login") == 2
    assert len(run_json(folder, "token", "revoke", "ci")["revoked"]) == 2
    assert run_json(folder, "token", "list")["tokens"] == []
    statuses = [row["status"] for row in run_json(folder, "token", "list", "--all")["tokens"]]
    assert statuses == ["revoked", "revoked"]


def test_no_token_is_made_that_cannot_be_written(folder: Path) -> None:
    (folder / "there").touch()
    refused = shiftboss(
        "token", "create", "ci", "--role", "worker", "--out", "there", folder=folder
    )
    assert refused.code == 1
    assert "cannot create there" in refused.err
    wrong = shiftboss("token", "create", "local", "--role", "worker", "--out", "new", folder=folder)
    assert wrong.code == 1
    assert not (folder / "new").exists()
    assert run_json(folder, "token", "list", "--all")["tokens"] == []


def test_an_agent_makes_no_tokens(folder: Path) -> None:
    refused = shiftboss(
        "token", "create", "x", "--role", "operator", folder=folder, SHIFTBOSS_TASK="T1"
    )
    assert refused.code == 1
    assert "agents cannot act as the operator" in refused.err


def test_a_named_operator_needs_no_other_token(server: RunningServer, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    operators_token = Path(server.database).parent / "operator-token"

    def run(*arguments: str, **variables: str) -> Done:
        return shiftboss("token", *arguments, url=server.url, folder=elsewhere, **variables)

    made = run(
        *("create", "alice", "--role", "operator"),
        SHIFTBOSS_OPERATOR_TOKEN=operators_token.read_text().strip(),
    )
    assert made.code == 0, made
    alice = made.out.strip()
    bob = run("create", "bob", "--role", "worker", SHIFTBOSS_TOKEN=alice)
    assert bob.code == 0, bob
    listed = run("list", "--json", SHIFTBOSS_TOKEN=alice)
    makers = {row["name"]: row["created_by"] for row in json.loads(listed.out)["tokens"]}
    assert makers == {"alice": "operator", "bob": "alice"}
    refused = run("list", SHIFTBOSS_TOKEN=bob.out.strip())
    assert refused.code == 1
    assert "the role worker of bob does not allow this" in refused.err


LISTS = [
    *("task list", "worker list", "questions list", "scope list", "claim list", "receipt list"),
    *("usage", "repo list", "policy history", "status"),
]


def test_lists_of_a_token_that_is_limited_to_a_swarm_need_no_option(
    server: RunningServer, tmp_path: Path
) -> None:
    operators_token = (Path(server.database).parent / "operator-token").read_text().strip()

    def run(*arguments: str, **variables: str) -> Done:
        return shiftboss(*arguments, url=server.url, folder=tmp_path, **variables)

    made = run(
        *("token", "create", "rita", "--role", "read-only", "--swarm", "login"),
        SHIFTBOSS_OPERATOR_TOKEN=operators_token,
    )
    for swarm in ("login", "other"):
        assert run("swarm", "create", "--id", swarm).code == 0
    for command in LISTS:
        listed = run(*command.split(), SHIFTBOSS_TOKEN=made.out.strip())
        assert listed.code == 0, (command, listed)
        assert "other" not in listed.out


def test_in_the_folder_of_the_server_a_missing_token_is_answered_with_the_operators(
    folder: Path,
) -> None:
    server = RunningServer(folder / ".shiftboss" / "shiftboss.db", token="secret").start()
    try:
        refused = shiftboss("status", folder=folder)
        hint = f"as the operator: --token-file {folder / '.shiftboss' / 'operator-token'}"
        assert (refused.code, hint in refused.err) == (1, True), refused
        shown = shiftboss("status", *hint.split()[3:], folder=folder)
        assert shown.code == 0, shown
        assert "operator:" not in shiftboss("status", folder=folder, SHIFTBOSS_TASK="t1").err
    finally:
        server.close()
