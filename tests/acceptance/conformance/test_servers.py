"""The kit and servers: ours passes completely, and every lie is caught by its check."""

from __future__ import annotations

import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from shiftboss.client.server_address import Server
from shiftboss.conformance.calls import ServerCalls
from shiftboss.conformance.checks import Broken, Result
from shiftboss.conformance.server.kit import SERVER_CHECKS, check_server
from tests.acceptance.conformance.lying_proxy import Document, Lie, lying
from tests.repos import Repo
from tests.running import RunningServer

pytestmark = pytest.mark.requirement("OWN-10")


def run(url: str, *only: str, seconds: float = 20.0) -> dict[str, Result]:
    results = check_server(Server(url, None), only, seconds)
    return {result.check.name: result for result in results}


def test_our_server_passes_every_check(tmp_path: Path) -> None:
    for name in ("core", "app"):
        Repo(tmp_path / name)
    policy = tmp_path / "shiftboss.yaml"
    repos = {"core": {"path": "core"}, "app": {"path": "app", "depends_on": ["core"]}}
    policy.write_text(yaml.safe_dump({"repos": repos}))
    server = RunningServer(tmp_path / "state" / "shiftboss.db", policy=str(policy))
    try:
        results = run(server.start().url)
    finally:
        server.close()
    assert [(name, one.outcome, one.reason) for name, one in results.items()] == [
        (check.name, "holds", "") for check in SERVER_CHECKS
    ]


def changed(operation: str, **members: Any) -> Lie:
    """These members of its answers are others. One that is ... is left out."""

    def lie(called: str, _: Document, status: int, answer: Document) -> tuple[int, Document]:
        if called != operation or "error" in answer or status >= 400:
            return status, answer
        lied = {**answer, **members}
        return status, {name: value for name, value in lied.items() if value is not ...}

    return lie


def accepting(operation: str, **answer: Any) -> Lie:
    """What the server refuses is said to be accepted."""

    def lie(called: str, _: Document, status: int, found: Document) -> tuple[int, Document]:
        if called == operation and ("error" in found or status >= 400):
            return 200, dict(answer)
        return status, found

    return lie


def refusing(operation: str, **answer: Any) -> Lie:
    def lie(called: str, _: Document, status: int, found: Document) -> tuple[int, Document]:
        return (409, {"error": "no", **answer}) if called == operation else (status, found)

    return lie


def event_lines(before: str, after: str) -> Lie:
    def lie(called: str, _: Document, status: int, answer: Document) -> tuple[int, Document]:
        if called == "event line":
            return status, {"line": answer["line"].replace(before, after)}
        return status, answer

    return lie


def worker(**members: Any) -> Lie:
    """The workers in a status are others."""

    def lie(called: str, _: Document, status: int, answer: Document) -> tuple[int, Document]:
        if called in ("status", "get_status") and "workers" in answer:
            workers = [{**one, **members} for one in answer["workers"]]
            return status, {**answer, "workers": workers}
        return status, answer

    return lie


def task(**members: Any) -> Lie:
    def lie(called: str, _: Document, status: int, answer: Document) -> tuple[int, Document]:
        if called == "poll_task" and answer.get("task"):
            return status, {**answer, "task": {**answer["task"], **members}}
        return status, answer

    return lie


# What is changed, the check that notices, and a part of the reason that it gives.
LIES: dict[str, tuple[Lie, str, str]] = {
    "create gives no id": (changed("create", swarm_id=...), "create", "has no 'swarm_id'"),
    "register has local time": (
        changed("register", registered_at="2026-01-05 10:00"),
        "register",
        "'registered_at' of the answer",
    ),
    "register has more": (
        changed("register", mood="good"),
        "register",
        "members that the document",
    ),
    "register again differs": (
        refusing("register"),
        "register-again",
        "register was refused",
    ),
    "progress has no time": (changed("progress", timestamp=...), "progress", "has no 'timestamp'"),
    "the counter falls": (worker(tasks_completed=1), "counter", "'tasks_completed' of the worker"),
    "repeats count twice": (worker(tasks_completed=2), "repeat", "'tasks_completed' of the worker"),
    "nobody remains": (changed("complete", remaining_workers=0), "complete", "'remaining_workers'"),
    "complete is a number": (changed("complete", swarm_complete=1), "complete", "'swarm_complete'"),
    "errors are not logged": (changed("error", error_logged=False), "error", "'error_logged'"),
    "all is retried": (changed("error", retry_scheduled=True), "error-types", "test_failure"),
    "retries at once": (changed("error", retry_in_seconds=1), "retries", "'retry_in_seconds'"),
    "nobody failed": (changed("status", workers_failed=0), "status", "'workers_failed'"),
    "unknown is fine": (accepting("register", ok=True), "unknown-swarm", "the answer is 200"),
    "limits are not checked": (accepting("register", ok=True), "limits", "packet_id=0 got 200"),
    "refusals name nothing": (
        lambda _, __, status, answer: (status, {"no": 1} if status == 422 else answer),
        "limits",
        "does not name packet_id",
    ),
    "any body is fine": (accepting("progress", ok=True), "bad-body", "progress with the body"),
    "limits are too narrow": (refusing("progress"), "within-limits", "progress was refused"),
    "events have other names": (
        event_lines("progress_update", "progressed"),
        "events",
        "no event progress_update",
    ),
    "events start again": (event_lines("id: 4", "id: 2"), "events-resume", "after event"),
    "events do not come": (event_lines("worker_registered", "x"), "events-live", "no event"),
    "a tool is missing": (
        lambda called, _, status, answer: (
            status,
            {"result": {"tools": []}} if called == "mcp:tools/list" else answer,
        ),
        "tools",
        "there is no tool register_worker",
    ),
    "registered again is new": (
        changed("register_worker", message="Registered"),
        "register-worker",
        '"Already registered"',
    ),
    "unknown workers may poll": (
        accepting("poll_task", task=None, timeout=True),
        "unknown-worker",
        "was not refused",
    ),
    "no timeout": (changed("poll_task", timeout=...), "poll-timeout", "has no 'timeout'"),
    "other titles": (task(title="Another"), "poll-woken", "'title' of the task"),
    "another task": (task(bead_id="another"), "delivered-again", "'bead_id' of the task"),
    "unknown tasks": (
        accepting("submit_task", dispatched=True),
        "submit-unknown",
        "was not refused",
    ),
    "always the same worker": (
        changed("submit_task", worker="w1"),
        "least-recently-used",
        "Unknown worker: w1",
    ),
    "no position": (changed("submit_task", position=...), "queue", "has no 'position'"),
    "never executing": (worker(status="pending"), "ack", "'status' of the worker"),
    "any ack": (accepting("ack_task", success=True), "ack-mismatch", "was not refused"),
    "never free": (worker(current_task="x"), "done", "'current_task' of the worker"),
    "failed is done": (changed("task_failed", status="done"), "failed", "'status' of the answer"),
    "done by anybody": (accepting("worker_done", success=True), "not-held", "was not refused"),
    "late reports count": (
        accepting("task_failed", success=True, status="failed"),
        "late-report",
        "task_failed was not refused",
    ),
    "no reset": (refusing("reset_worker"), "reset", "reset_worker was refused"),
    "no retry": (refusing("retry_task"), "retry", "retry_task was refused"),
    "assign loses the path": (task(spec_path=None), "assign", "'spec_path' of the task"),
    "no threshold": (
        changed("send_message", checkpoint_requested=False),
        "heartbeat",
        "the answer at 0.7",
    ),
    "states do not move": (
        changed("send_message", state="executing"),
        "progress-message",
        "'state' of the answer",
    ),
    "any transition": (accepting("send_message", accepted=True), "illegal", "complete got 200"),
    "complete is refused": (refusing("send_message"), "complete-message", "was refused"),
    "failed is final": (
        lambda _, __, status, answer: (
            status,
            {"task": None} if (answer.get("task") or {}).get("epoch") == 2 else answer,
        ),
        "failed-message",
        "the task after a recoverable failure has no 'bead_id'",
    ),
    "no answers": (changed("poll_task", answers=...), "blocked", "does not have the answer"),
    "no checkpoint": (task(checkpoint=None), "context-threshold", "its checkpoint"),
    "any message": (accepting("send_message", accepted=True), "bad-messages", "dance got 200"),
    "a handoff without contract": (
        changed("swarm_spawn_subtask", handoff={"context": {}}),
        "handoff",
        "the contract of the handoff lacks",
    ),
    "a long prompt": (
        changed("swarm_spawn_subtask", prompt="x\n" * 280),
        "handoff-prompt",
        "the prompt has 280 lines",
    ),
    "any handoff": (accepting("swarm_spawn_subtask", status="open"), "handoff-strict", "accepted"),
    "any scope": (accepting("swarm_complete", success=True), "scope", "the work was accepted"),
    "any change": (accepting("swarm_complete", success=True), "readonly", "the work was accepted"),
    "no criteria": (accepting("swarm_complete", success=True), "criteria", "the work was accepted"),
    "nothing is good": (
        refusing("swarm_complete", status="refused"),
        "accepted",
        "has no 'success'",
    ),
    "done is believed": (accepting("worker_done", success=True), "done-is-verified", "not refused"),
    "no dependencies": (accepting("swarm_spawn_subtask", ok=True), "dependencies", "the spawn got"),
    "overlaps": (accepting("swarm_spawn_subtask", ok=True), "overlap", "a second task with"),
    "no milestone": (changed("report_milestone", milestone="DONE"), "working", "'milestone'"),
    "any order": (accepting("report_milestone", ok=True), "order", "was accepted"),
    "any line": (accepting("report_milestone", ok=True), "required-info", "was accepted"),
    "denials go on": (changed("report_failure", action="retry"), "permission", "'action'"),
    "no backoff": (changed("report_failure", retry_in_seconds=1), "transient", "retry_in_seconds"),
    "fix for ever": (changed("report_failure", action="fix"), "recoverable", "the actions are"),
    "CI in the prompt": (
        changed("get_worker_prompt", text="PUSHED_TO_CI: curl https://ci"),
        "spawn-prompt",
        "the prompt has",
    ),
    "no yes or no": (changed("can_spawn", can_spawn="maybe"), "repos", "no yes or no"),
    "all in one phase": (
        changed(
            "list_repos",
            repos=[
                {"repo": "core", "phase": 1, "depends_on": []},
                {"repo": "app", "phase": 1, "depends_on": ["core"]},
            ],
        ),
        "phases",
        "not in a later phase than core",
    ),
}


@pytest.fixture(scope="module")
def policy_server(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("policy")
    Repo(folder / "core")
    policy = folder / "shiftboss.yaml"
    policy.write_text(yaml.safe_dump({"repos": {"core": {"path": "core"}}}))
    running = RunningServer(folder / "state" / "shiftboss.db", policy=str(policy))
    try:
        yield running.start()
    finally:
        running.close()


@pytest.mark.parametrize("name", LIES)
def test_a_lie_is_caught_by_the_check_that_names_it(
    policy_server: RunningServer, name: str
) -> None:
    lie, check, reason = LIES[name]
    # Only this one waits for what does not come; the others must not depend on a quiet machine.
    seconds = 2.0 if check == "events-live" else 20.0
    with lying(policy_server.url, lie) as proxy:
        result = run(proxy.url, check, seconds=seconds)[check]
    assert result.outcome == "broken", result
    assert reason in result.reason
    assert result.wire


def test_a_server_that_never_ends_its_answer_does_not_stop_the_kit() -> None:
    class Dripping(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(200)
            self.end_headers()
            try:
                while True:
                    self.wfile.write(b" ")
                    self.wfile.flush()
                    time.sleep(0.01)
            except OSError:
                pass

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Dripping) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        calls = ServerCalls(Server(f"http://127.0.0.1:{server.server_address[1]}", None))
        with pytest.raises(Broken, match=r"has no end within 0\.2 s"):
            calls.post("/swarm/create", {}, seconds=0.2)
        calls.close()
        server.shutdown()


@pytest.mark.parametrize(
    "dripped", [b"HTTP/1.1 103 Early Hints\r\n\r\n", b"HTTP/1.1 200 OK\r\nX:", b""]
)
def test_a_server_that_never_ends_its_headers_does_not_stop_the_kit(dripped: bytes) -> None:
    class Dripping(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.wfile.write(dripped)
            try:
                while True:
                    self.wfile.write(dripped if dripped.endswith(b"\n") else b" ")
                    time.sleep(0.05)
            except OSError:
                pass

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Dripping) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        calls = ServerCalls(Server(f"http://127.0.0.1:{server.server_address[1]}", None))
        with pytest.raises(Broken, match=r"has no end within 0\.2 s|no answer"):
            calls.post("/swarm/create", {}, seconds=0.2)
        calls.close()
        server.shutdown()


def test_every_check_has_a_lie_that_it_catches() -> None:
    assert {check.name for check in SERVER_CHECKS} == {check for _, check, _ in LIES.values()}
