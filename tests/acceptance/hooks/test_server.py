"""Hooks with a real server: granted scope takes effect at once, and no agent ends unproven."""

from __future__ import annotations

import json
import socket
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from shiftboss.hooks.contract import hash_of, read_contract
from tests.acceptance.bus.bus import ask
from tests.acceptance.bus.bus_calls import InSwarm
from tests.acceptance.handoffs.handoffs import PASSES, complete, greedy, honest, start_over
from tests.acceptance.hooks.hook_fixtures import HookOutput, TaskWorkspace

pytestmark = pytest.mark.requirement("HO-10")


class ServedWorkspace(TaskWorkspace):
    """The contract of a task that the server has assigned."""

    def __init__(self, folder: Path, bus: InSwarm) -> None:
        super().__init__(folder)
        self.bus = bus
        ask(bus, "register_worker", name="w")
        self.spawned = ask(
            bus,
            "swarm_spawn_subtask",
            bead_id="t",
            files=["src/auth/"],
            subtask_title="Give a token",
            success_criteria=[PASSES],
            repo=str(self.tree),
            branch="task",
            submit=True,
        )
        ask(bus, "ack_task", name="w", bead_id="t")
        view = ask(bus, "show_handoff", bead_id="t")
        self.write(
            swarm_id=bus.swarm_id,
            handoff=view["handoff"],
            contract_hash=view["hash"],
            server_url=bus.url,
        )

    def stop(self, session: str = "one", kind: str = "stop") -> dict[str, Any]:
        done = self.hook(kind, {"session_id": session, "stop_hook_active": False, "cwd": "/"})
        assert done.code == 0, done
        given: dict[str, Any] = json.loads(done.out)
        return given


@pytest.fixture
def workspace(tmp_path: Path, bus: InSwarm) -> ServedWorkspace:
    return ServedWorkspace(tmp_path, bus)


def edit(workspace: TaskWorkspace, path: str) -> HookOutput:
    return workspace.use("Write", file_path=path, content="x")


def test_a_granted_scope_request_takes_effect_at_once(workspace: ServedWorkspace) -> None:
    workspace.install_git_hooks()
    assert edit(workspace, "docs/guide.md").code == 2
    asked = ask(
        workspace.bus, "request_scope", bead_id="t", paths=["docs/guide.md"], reason="the page"
    )
    assert asked["status"] == "granted", asked
    assert edit(workspace, "docs/guide.md") == (0, "", "")
    now = read_contract(workspace.contract)
    assert now.version == 2
    assert "docs/guide.md" in now.owned
    assert workspace.contract.stat().st_mode & 0o777 == 0o600
    workspace.repo.write({"docs/guide.md": "x"})
    workspace.git("add", "--all")
    assert workspace.git("commit", "--message", "x").code == 0
    refused = edit(workspace, "README.md")
    assert "version 2" in refused.err


def test_the_commit_hook_notices_a_granted_request_by_itself(workspace: ServedWorkspace) -> None:
    workspace.install_git_hooks()
    workspace.repo.write({"docs/guide.md": "x"})
    workspace.git("add", "--all")
    assert workspace.git("commit", "--message", "x").code == 1
    ask(workspace.bus, "request_scope", bead_id="t", paths=["docs/guide.md"], reason="the page")
    assert workspace.git("commit", "--message", "x").code == 0


class Liar:
    """A server that always gives the same answer, and records the tokens it receives."""

    def __init__(self, answer: dict[str, Any]) -> None:
        self.heard: list[str | None] = []
        text = json.dumps(answer).encode()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(handler) -> None:  # noqa: N805
                self.heard.append(handler.headers.get("Authorization"))
                handler.rfile.read(int(handler.headers["Content-Length"]))
                handler.send_response(200)
                handler.end_headers()
                handler.wfile.write(text)

            def log_message(handler, *_: object) -> None:  # noqa: N805
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self._thread = Thread(target=self._server.serve_forever)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.mark.parametrize("lie", ["an older version", "another hash", "another task", "no list"])
def test_only_a_newer_contract_of_the_same_task_with_a_valid_hash_is_accepted(
    tmp_path: Path, lie: str
) -> None:
    workspace = TaskWorkspace(tmp_path, contract_version=2)
    handoff = json.loads(workspace.contract.read_text())["handoff"]
    handoff["contract"]["files_owned"] = ["**"] if lie != "no list" else "**"
    handoff["contract"]["task_id"] = "u" if lie == "another task" else "t"
    liar = Liar(
        {
            "version": 1 if lie == "an older version" else 3,
            "hash": "0" * 64 if lie == "another hash" else hash_of(handoff),
            "handoff": handoff,
            "policy": {},
        }
    )
    try:
        # Of several addresses it uses the one that answers.
        workspace.write(contract_version=2, server_url=f"http://127.0.0.1:1,{liar.url}")
        before = workspace.contract.read_bytes()
        given = workspace.call("Write", file_path="README.md")
        refused = workspace.hook("pre-tool-use", given, SHIFTBOSS_TOKEN="secret-word")
    finally:
        liar.close()
    assert refused.code == 2
    assert "secret-word" not in refused.err
    assert workspace.contract.read_bytes() == before
    assert liar.heard == ["Bearer secret-word"]


def test_an_agent_cannot_stop_until_it_has_claimed(
    workspace: ServedWorkspace,
) -> None:
    first = workspace.stop()
    assert first["decision"] == "block"
    assert f'swarm_complete(swarm_id="{workspace.bus.swarm_id}", bead_id="t")' in first["reason"]
    assert "BLOCKED" in first["reason"]
    greedy(workspace.repo)
    complete(workspace.bus, "t", name="w", epoch=1)
    refused = workspace.stop()
    assert refused["decision"] == "block"
    assert "README.md" in refused["reason"]
    start_over(workspace.repo)
    honest(workspace.repo)
    accepted = complete(workspace.bus, "t", name="w", epoch=1)
    assert accepted.status_code == 200, accepted.text
    assert workspace.stop() == {}


def test_each_session_is_stopped_from_ending_three_times(workspace: ServedWorkspace) -> None:
    assert [bool(workspace.stop()) for _ in range(5)] == [True, True, True, False, False]
    assert workspace.stop("two")["decision"] == "block"
    assert workspace.stop("three", "codex-stop")["decision"] == "block"
    assert workspace.stop("four", "gemini-after-agent")["decision"] == "deny"


def test_an_agent_that_asked_a_question_or_lost_its_task_can_stop(
    workspace: ServedWorkspace,
) -> None:
    ask(
        workspace.bus,
        "report_milestone",
        bead_id="t",
        line="BLOCKED: which key?",
        name="w",
        epoch=1,
    )
    assert workspace.stop() == {}
    (question,) = ask(workspace.bus, "list_questions", only_open=True)["questions"]
    ask(workspace.bus, "answer_question", question_id=question["question_id"], answer="the old one")
    assert workspace.stop()["decision"] == "block"
    ask(workspace.bus, "task_failed", bead_id="t", name="w", epoch=1, reason="cannot")
    assert workspace.stop("two") == {}


def test_an_agent_whose_task_went_to_another_attempt_can_stop(workspace: ServedWorkspace) -> None:
    ask(workspace.bus, "reset_worker", worker_name="w")
    assert workspace.stop() == {}


def test_without_a_server_an_agent_is_stopped_from_ending_once(tmp_path: Path) -> None:
    workspace = TaskWorkspace(tmp_path)
    given = {"session_id": "a", "stop_hook_active": False}
    first = json.loads(workspace.hook("stop", given).out)
    assert first["decision"] == "block"
    assert json.loads(workspace.hook("stop", given).out) == {}


def test_with_a_broken_contract_an_agent_is_stopped_from_ending_once(tmp_path: Path) -> None:
    workspace = TaskWorkspace(tmp_path)
    workspace.contract.write_text("{")
    assert "decision" in json.loads(workspace.hook("stop", {"session_id": "a"}).out)
    assert json.loads(workspace.hook("stop", {"session_id": "a"}).out) == {}


def test_unreadable_input_stops_an_agent_from_ending_only_once(tmp_path: Path) -> None:
    workspace = TaskWorkspace(tmp_path)
    assert "decision" in json.loads(workspace.hook("stop", b"{").out)
    assert json.loads(workspace.hook("stop", b"{").out) == {}


def test_a_silent_server_costs_only_seconds_and_changes_nothing(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        workspace = TaskWorkspace(
            tmp_path, server_url=f"http://127.0.0.1:{silent.getsockname()[1]}"
        )
        before = workspace.contract.read_bytes()
        assert edit(workspace, "README.md").code == 2
        assert workspace.contract.read_bytes() == before
