"""What has happened, over HTTP and with the command: events, logs, replays."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.client import Client
from tests.commands import shiftboss
from tests.running import RunningServer

pytestmark = pytest.mark.requirement("OWN-04")

HOSTILE = "<script>alert(1)</script> \x1b[2J \u202e"


def asked(client: Client, operation: str, **members: object) -> dict[str, Any]:
    answer = client.post(f"/bus/{operation}", members)
    assert answer.status_code == 200, answer.text
    document: dict[str, Any] = answer.json()
    return document


@pytest.fixture
def worked(shared_client: Client) -> Client:
    """`done` is done, and w works on `active`."""
    for task in ("done", "active"):
        asked(shared_client, "add_task", bead_id=task, title=HOSTILE)
        asked(shared_client, "submit_task", bead_id=task)
    asked(shared_client, "register_worker", name="w")
    asked(shared_client, "poll_task", name="w", timeout_ms=0)
    asked(shared_client, "ack_task", name="w", bead_id="done")
    asked(shared_client, "worker_done", name="w", bead_id="done")
    return shared_client


def test_events_are_listed_and_refusals_name_the_field(worked: Client) -> None:
    events = asked(worked, "list_events", kinds=["task_done"])["events"]
    assert [(event["kind"], event["bead_id"]) for event in events] == [("task_done", "done")]
    refused = worked.post("/bus/list_events", {"kinds": ["no such kind"]})
    assert (refused.status_code, refused.json()["field"]) == (422, "kinds.0")


def test_a_replay_over_http_and_on_a_terminal(worked: Client, shared_server: RunningServer) -> None:
    last = asked(worked, "replay_swarm")
    assert {task["bead_id"]: task["column"] for task in last["tasks"]} == {
        "active": "running",
        "done": "done",
    }
    (added,) = asked(worked, "list_events", kinds=["task_added"], bead_id="done")["events"]
    at = added["event_id"]
    first = asked(worked, "replay_swarm", at=at)
    assert (first["at"], first["last_event_id"]) == (at, last["last_event_id"])
    assert [task["status"] for task in first["tasks"]] == ["open"]
    told = shiftboss("replay", "default", url=shared_server.url)
    assert told.code == 0, told.err
    assert "done: waiting -> running" in told.out
    assert "done: running -> done  (1 waiting, 1 done)" in told.out
    assert r"\x1b[2J \u202e" in told.out
    as_json = shiftboss("replay", "default", "--at", str(at), "--json", url=shared_server.url)
    assert json.loads(as_json.out)["tasks"] == first["tasks"]
    wrong = shiftboss("replay", "default", "--at", "999", url=shared_server.url)
    assert (wrong.code, wrong.err) == (1, f"at: the last event of default is {last['at']}\n")


def test_a_log_is_read_from_the_folder_of_the_run(
    worked: Client, shared_server: RunningServer
) -> None:
    nothing = asked(worked, "read_log", bead_id="active")
    assert nothing["available"] is False
    assert nothing["command"] == "shiftboss logs active --swarm default"
    folder = shared_server.state_folder / "runs" / "default" / "active.1"
    folder.mkdir(parents=True)
    record = {"settings": {"kind": "command"}, "started_at": "2026-01-05T10:00:00Z"}
    (folder / "attempt.json").write_text(json.dumps(record))
    (folder / "output.log").write_text(f"compiles {HOSTILE}\n")
    (folder / "errors.log").write_text("oops\n")
    log = asked(worked, "read_log", bead_id="active")
    (attempt,) = log["attempts"]
    assert (attempt["epoch"], attempt["agent"]) == (1, "command")
    assert attempt["started_at"] == 1_767_607_200_000
    first, second = log["lines"]
    assert (first["kind"], second["kind"]) == ("text", "stderr")
    assert first["text"] == r"compiles <script>alert(1)</script> \x1b[2J \u202e"
    assert asked(worked, "read_log", bead_id="active", after=log["next"]).get("lines", []) == []
    for members in ({"after": "../../etc/passwd"}, {"bead_id": "../x"}):
        refused = worked.post("/bus/read_log", {"bead_id": "active"} | members)
        assert refused.status_code == 422
    other = worked.post("/bus/read_log", {"bead_id": "active", "epoch": 7})
    assert (other.status_code, other.json()["field"]) == (404, "epoch")
