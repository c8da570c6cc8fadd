"""Who may give tasks their contracts, and what a contract can see of the server."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shiftboss.server.settings import ServerSettings
from tests.acceptance.handoffs.handoffs import PASSES, Operator, complete, honest
from tests.acceptance.mcp.mcp_clients import connected
from tests.client import Client
from tests.commands import Done, running, shiftboss
from tests.repos import Repo
from tests.running import RunningServer

HIDDEN = "a-secret-of-the-servers-environment"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """Only the operator can spawn here, and commands see one variable."""
    running_server = RunningServer(
        tmp_path_factory.mktemp("spawning") / "shiftboss.db",
        spawning="operator",
        pass_environment=["SHOWN_TO_COMMANDS"],
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SHOWN_TO_COMMANDS", "seen")
        patch.setenv("HIDDEN_FROM_COMMANDS", HIDDEN)
        running_server.start()
    try:
        yield running_server
    finally:
        running_server.close()


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return Repo(tmp_path / "repo")


@pytest.fixture
def operator(server: RunningServer) -> Operator:
    return Operator(server)


def spawn_request(repo: Repo, bead_id: str, **members: object) -> dict[str, Any]:
    request: dict[str, object] = {
        "bead_id": bead_id,
        "files": ["src/auth/"],
        "subtask_title": "T",
        "repo": str(repo.path),
        "success_criteria": [PASSES],
    }
    return request | members


@pytest.mark.requirement("HO-01", "HO-09")
def test_spawning_can_be_restricted_to_the_operator(
    client: Client, operator: Operator, repo: Repo
) -> None:
    greedy = spawn_request(repo, "t", files=["**"])
    no = client.post("/bus/swarm_spawn_subtask", greedy)
    assert (no.status_code, no.json()["code"]) == (403, "forbidden")
    assert "handoff spawn" in no.json()["hint"]
    assert client.post("/operator/spawn_subtask", greedy).status_code == 403
    assert operator.post("spawn_subtask", greedy, b"wrong").status_code == 403
    assert client.post("/bus/show_task", {"bead_id": "t"}).json()["code"] == "unknown_task"

    assert operator.does("spawn_subtask", **spawn_request(repo, "t"))["contract_version"] == 1
    # An existing contract is replaced by a different operation.
    again = operator.post("spawn_subtask", greedy)
    assert (again.status_code, again.json()["code"]) == (409, "handoff_exists")
    honest(repo)
    assert complete(client, "t").json()["success"] is True


@pytest.mark.requirement("HO-09", "OWN-12")
def test_only_the_operator_brings_a_cancelled_task_back_where_spawning_is_restricted(
    client: Client, operator: Operator, server: RunningServer, tmp_path: Path
) -> None:
    client.post("/bus/add_task", {"bead_id": "stopped", "title": "T"})
    client.post("/bus/submit_task", {"bead_id": "stopped"})
    client.post("/bus/cancel_task", {"bead_id": "stopped"})
    refused = client.post("/bus/retry_task", {"bead_id": "stopped"})
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    assert "shiftboss task retry stopped --swarm" in refused.json()["hint"]
    assert client.post("/bus/show_task", {"bead_id": "stopped"}).json()["status"] == "cancelled"

    retry = ("task", "retry", "stopped")
    assert shiftboss(*retry, url=server.url, folder=tmp_path).code == 1, "without the token"
    token = operator.token
    assert shiftboss(*retry, url=server.url, SHIFTBOSS_OPERATOR_TOKEN=token).code == 0
    assert client.post("/bus/show_task", {"bead_id": "stopped"}).json()["status"] == "queued"
    # Everybody retries a task that is not cancelled.
    assert client.post("/bus/retry_task", {"bead_id": "stopped"}).json()["status"] == "queued"


@pytest.mark.anyio
@pytest.mark.requirement("HO-01", "HO-09")
async def test_the_mcp_tool_does_not_bypass_the_restriction(
    server: RunningServer, repo: Repo
) -> None:
    async with connected(server.url, "2026-07-28") as bus:
        no = await bus.refused("swarm_spawn_subtask", **spawn_request(repo, "by-tool"))
    assert no["code"] == "forbidden"


@pytest.mark.requirement("HO-05", "OWN-02")
def test_commands_see_only_the_variables_that_the_operator_allows(
    client: Client, operator: Operator, repo: Repo
) -> None:
    reading = spawn_request(repo, "env", success_criteria=["Command passes: env"])
    for name in ("HIDDEN_FROM_COMMANDS", "SHIFTBOSS_OPERATOR_TOKEN"):
        named = {"environment": ["SHOWN_TO_COMMANDS", name]}
        no = operator.post("spawn_subtask", reading | {"policy": named})
        assert (no.status_code, no.json()["field"]) == (422, "policy.environment.1")
    shown = {"environment": ["SHOWN_TO_COMMANDS"]}
    operator.does("spawn_subtask", **(reading | {"policy": shown}))
    honest(repo)
    done = complete(client, "env")
    assert done.json()["success"] is True
    (criterion,) = [check for check in done.json()["checks"] if check["check"] == "criterion"]
    assert "SHOWN_TO_COMMANDS=seen" in criterion["output_tail"]
    assert HIDDEN not in done.text


@pytest.mark.requirement("HO-01", "HO-09")
def test_the_command_spawns_as_the_operator_where_required(
    server: RunningServer, operator: Operator, repo: Repo
) -> None:
    def spawn(*more: str, **variables: str) -> Done:
        command = ("handoff", "spawn", "by-command", "--title", "T", "--files", "docs/", *more)
        return shiftboss(*command, url=server.url, folder=repo.path, **variables)

    no = spawn()
    assert (no.code, no.out) == (1, "")
    assert no.err.startswith("only the operator may spawn here; nothing was changed; ")
    wrong = spawn(SHIFTBOSS_OPERATOR_TOKEN="wrong")
    assert (wrong.code, wrong.out) == (1, "")
    yes = spawn(SHIFTBOSS_OPERATOR_TOKEN=operator.token)
    assert (yes.code, yes.err) == (0, "")
    assert yes.out.startswith("by-command has contract version 1")


@pytest.mark.requirement("HO-09")
@pytest.mark.parametrize(
    ("settings", "is_open"),
    [
        ({}, True),
        ({"host": "::1"}, True),
        ({"token": "t"}, False),
        ({"operator_token": "t"}, False),
        ({"operator_token": "t", "spawning": "everybody"}, True),
        ({"host": "0.0.0.0", "token": "t"}, False),
        ({"spawning": "operator"}, False),
        ({"token": "t", "spawning": "everybody"}, True),
    ],
)
def test_spawning_is_open_only_on_a_server_that_no_other_machine_can_reach(
    settings: dict[str, Any], is_open: bool
) -> None:
    assert ServerSettings("x.db", **settings).spawning_is_open is is_open


@pytest.mark.requirement("HO-05", "HO-09")
@pytest.mark.parametrize(
    ("options", "variables"),
    [
        (("--pass-environment", "A_ONE", "--pass-environment", "A_TWO"), {}),
        ((), {"SHIFTBOSS_PASS_ENVIRONMENT": "A_ONE, A_TWO"}),
        ((), {"SHIFTBOSS_PASS_ENVIRONMENT": "A_ONE,A_TWO"}),
    ],
)
def test_serve_accepts_the_names_of_allowed_variables(
    tmp_path: Path, options: tuple[str, ...], variables: dict[str, str]
) -> None:
    repo = Repo(tmp_path / "repo")
    command = ("serve", "--port", "0", "--db", str(tmp_path / "x.db"), "--spawning", "everybody")
    with running(*command, *options, SHIFTBOSS_TOKEN="t", **variables) as serving:
        client = Client(serving.line().split()[2].rstrip(";"), "t")
        for name, status in (("A_ONE", 200), ("A_TWO", 200), ("A_THREE", 422)):
            request = spawn_request(repo, name, files=[name], policy={"environment": [name]})
            assert client.post("/bus/swarm_spawn_subtask", request).status_code == status
        client.close()
        serving.signal(signal.SIGTERM)
        assert serving.end().code == 0


@pytest.mark.requirement("HO-05")
def test_our_own_variables_are_never_passed_on(tmp_path: Path) -> None:
    command = ("serve", "--port", "0", "--db", str(tmp_path / "x.db"))
    done = shiftboss(*command, "--pass-environment", "SHIFTBOSS_TOKEN")
    assert (done.code, done.out) == (1, "")
    assert done.err == "SHIFTBOSS_TOKEN can never be passed to commands\n"


@pytest.mark.requirement("OWN-02")
def test_a_new_database_is_private(tmp_path: Path) -> None:
    """It contains output of commands. An existing database keeps the mode it was given."""
    old_mask = os.umask(0o022)
    try:
        new = RunningServer(tmp_path / "new" / "shiftboss.db", state=str(tmp_path / "state"))
        chosen = tmp_path / "chosen.db"
        chosen.touch(0o640)
        chosen.chmod(0o640)
        old = RunningServer(chosen, state=str(tmp_path / "state-2"))
        for server, mode in ((new, 0o600), (old, 0o640)):
            server.start()
            try:
                for end in ("", "-wal", "-shm"):
                    assert _mode(f"{server.database}{end}") == mode, end
            finally:
                server.close()
    finally:
        os.umask(old_mask)
    assert _mode(tmp_path / "new") == 0o700


def _mode(path: str | Path) -> int:
    return Path(path).stat().st_mode & 0o777
