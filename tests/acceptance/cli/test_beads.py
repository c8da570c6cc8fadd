"""The beads tracker as a source of tasks: a real server asks a fake `bd`."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from shiftboss.server.fast_path.core_affinity import usable_cores
from tests.acceptance.bus.bus import ask, task
from tests.client import Client
from tests.commands import running, shiftboss
from tests.running import RunningServer
from tests.waiting import wait_until

# Answers from issues.json in its working folder, and records its calls.
BD = """#!{python}
import json, os, subprocess, sys
from pathlib import Path

def main():
    secrets = [name for name in os.environ if name.startswith("SHIFTBOSS_")]
    with Path("asked.jsonl").open("a") as asked:
        print(json.dumps([sys.argv[1:], secrets]), file=asked)
    issue = json.loads(Path("issues.json").read_text()).get(sys.argv[2])
    if issue is None:
        sys.exit(f"Error: no issue found matching {{sys.argv[2]!r}}")
    if issue == "hang":
        child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"],
                                 stdin=subprocess.PIPE)
        Path("child").write_text(str(child.pid))
        child.wait()
    if issue == "locked":
        sys.exit("Error: database is locked")
    if issue == "flood":
        print("x" * 2_000_000)
    print(issue if isinstance(issue, str) else json.dumps(issue))

main()
"""


class Tracker:
    def __init__(self, folder: Path) -> None:
        self.folder = folder / "project"
        self.programs = folder / "bin"
        self.folder.mkdir()
        self.programs.mkdir()
        program = self.programs / "bd"
        program.write_text(BD.format(python=sys.executable))
        program.chmod(0o755)
        self.holds({})

    def holds(self, issues: dict[str, Any]) -> None:
        (self.folder / "issues.json").write_text(json.dumps(issues))

    def asked(self) -> list[Any]:
        """The arguments of every call, and which of our variables it could see."""
        log = self.folder / "asked.jsonl"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def issue(bead_id: str, **members: object) -> dict[str, Any]:
    return {
        "id": bead_id,
        "title": f"Title of {bead_id}",
        "status": "open",
        "priority": 1,
    } | members


def submit(client: Client, bead_id: str) -> tuple[int, dict[str, Any]]:
    answer = client.post("/bus/submit_task", {"bead_id": bead_id})
    return answer.status_code, answer.json()


@pytest.fixture
def tracker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tracker:
    tracker = Tracker(tmp_path)
    monkeypatch.setenv("PATH", f"{tracker.programs}:{os.environ['PATH']}")
    monkeypatch.setenv("SHIFTBOSS_TOKEN", "not-for-bd")
    return tracker


@pytest.fixture
def server(tracker: Tracker, sqlite_path: str) -> Iterator[RunningServer]:
    server = RunningServer(sqlite_path, beads=str(tracker.folder))
    try:
        yield server.start()
    finally:
        server.close()


@pytest.fixture
def client(server: RunningServer) -> Iterator[Client]:
    client = Client(server.url)
    yield client
    client.close()


@pytest.mark.requirement("BUS-04")
def test_a_task_known_only_to_the_tracker_is_added_and_assigned(
    tracker: Tracker, client: Client
) -> None:
    tracker.holds({"bd-a1b2": [issue("bd-a1b2", description="All of it", labels=["x"])]})
    ask(client, "register_worker", name="z.ai1")
    status, answer = submit(client, "bd-a1b2")
    assert (status, answer["dispatched"], answer["worker"]) == (200, True, "z.ai1")
    added = task(client, "bd-a1b2")
    assert (added["title"], added["description"]) == ("Title of bd-a1b2", "All of it")
    assert (added["priority"], added["status"]) == (1, "active")
    assert submit(client, "bd-a1b2")[0] == 200
    assert tracker.asked() == [[["show", "bd-a1b2", "--json"], []]]


@pytest.mark.requirement("BUS-04")
def test_unfinished_dependencies_are_added_with_the_task(tracker: Tracker, client: Client) -> None:
    tracker.holds(
        {
            "bd-3": issue(
                "bd-3",
                dependencies=[
                    issue("bd-2", dependency_type="blocks"),
                    issue("bd-1", dependency_type="blocks", status="closed"),
                    issue("bd-0", dependency_type="parent-child"),
                ],
            ),
            "bd-2": issue("bd-2", dependencies=[{"depends_on_id": "bd-9", "type": "blocks"}]),
            "bd-9": issue("bd-9", status="closed"),
        }
    )
    status, answer = submit(client, "bd-3")
    assert (status, answer["dispatched"], answer["waits_for"]) == (200, False, ["bd-2"])
    tasks = ask(client, "list_tasks")["tasks"]
    assert [(one["bead_id"], one["status"], one["depends_on"]) for one in tasks] == [
        ("bd-2", "open", []),
        ("bd-3", "queued", ["bd-2"]),
    ]


@pytest.mark.requirement("BUS-04")
def test_a_task_unknown_to_server_and_tracker_is_refused(tracker: Tracker, client: Client) -> None:
    status, answer = submit(client, "bd-404")
    assert (status, answer["code"], answer["detail"]) == (
        404,
        "unknown_task",
        "Unknown task: bd-404",
    )
    assert len(tracker.asked()) == 1
    tracker.holds({"bd-405": []})
    assert submit(client, "bd-405")[0] == 404


@pytest.mark.requirement("BUS-04")
def test_a_task_closed_in_the_tracker_is_not_done_again(tracker: Tracker, client: Client) -> None:
    tracker.holds({"bd-1": issue("bd-1", status="closed")})
    status, answer = submit(client, "bd-1")
    assert (status, answer["code"]) == (409, "task_ended")
    assert ask(client, "list_tasks")["tasks"] == []


@pytest.mark.requirement("BUS-04")
@pytest.mark.parametrize(
    "bead_id",
    [
        "--help",
        "-v",
        "; touch owned",
        "$(touch owned)",
        "`id`",
        "a b",
        "../bd-1",
        "",
        "bd-1\n",
        "é",
    ],
)
def test_an_invalid_id_never_reaches_bd(tracker: Tracker, client: Client, bead_id: str) -> None:
    assert submit(client, bead_id)[0] == 422
    assert tracker.asked() == []


@pytest.mark.requirement("BUS-04")
@pytest.mark.parametrize("bad", ["--help", "; touch owned"])
def test_ids_returned_by_the_tracker_are_validated_too(
    tracker: Tracker, client: Client, bad: str
) -> None:
    tracker.holds({"bd-1": issue("bd-1", dependencies=[{"depends_on_id": bad}])})
    status, answer = submit(client, "bd-1")
    assert (status, answer["code"]) == (503, "tracker_unavailable")
    assert len(tracker.asked()) == 1


@pytest.mark.requirement("BUS-04")
@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ("<html>", "the answer of bd cannot be used: Expecting value: line 1 column 1 (char 0)"),
        ("7", "the answer of bd cannot be used: not a JSON object"),
        ({"id": "bd-1"}, "the answer of bd cannot be used: title: must be a non-empty string"),
        ("locked", "bd failed: Error: database is locked"),
        ("flood", "bd printed more than 1048576 bytes"),
    ],
)
def test_an_unusable_answer_changes_nothing_and_says_why(
    tracker: Tracker, client: Client, reply: object, why: str
) -> None:
    tracker.holds({"bd-1": reply})
    status, answer = submit(client, "bd-1")
    assert (status, answer["code"], answer["detail"]) == (503, "tracker_unavailable", why)
    assert ask(client, "list_tasks")["tasks"] == []
    tracker.holds({"bd-1": issue("bd-1")})
    assert submit(client, "bd-1")[0] == 200


@pytest.mark.requirement("BUS-04")
def test_a_hanging_bd_blocks_no_other_request_and_is_killed_with_its_children(
    tracker: Tracker, client: Client
) -> None:
    tracker.holds({"bd-1": "hang"})
    answers: list[tuple[int, dict[str, Any]]] = []
    submitting = threading.Thread(target=lambda: answers.append(submit(client, "bd-1")))
    submitting.start()
    child_file = tracker.folder / "child"
    wait_until(lambda: child_file.exists() and child_file.read_text(), "bd hangs")
    assert client.get("/health").status_code == 200
    assert answers == [], "the server did something else meanwhile"
    submitting.join(20)
    assert [(code, problem["detail"]) for code, problem in answers] == [
        (503, "bd did not answer within 10 seconds")
    ]
    child = int(child_file.read_text())
    wait_until(lambda: not _is_running(child), "the child of bd is gone")


@pytest.mark.requirement("BUS-04")
def test_a_killed_bd_counts_as_an_unavailable_tracker(tracker: Tracker, client: Client) -> None:
    tracker.holds({"bd-1": "hang"})
    answers: list[tuple[int, dict[str, Any]]] = []
    submitting = threading.Thread(target=lambda: answers.append(submit(client, "bd-1")))
    submitting.start()
    child_file = tracker.folder / "child"
    wait_until(lambda: child_file.exists() and child_file.read_text(), "bd hangs")
    child = psutil.Process(int(child_file.read_text()))
    child.parent().send_signal(signal.SIGKILL)
    child.kill()
    submitting.join(20)
    assert [(code, problem["code"]) for code, problem in answers] == [(503, "tracker_unavailable")]


@pytest.mark.requirement("BUS-04")
@pytest.mark.skipif(len(usable_cores()) < 2, reason="there is no second core, or no choosing")
def test_bd_can_use_all_cores_although_the_server_is_pinned_to_one(
    tracker: Tracker, server: RunningServer, client: Client
) -> None:
    wait_until(lambda: len(os.sched_getaffinity(server.pid)) == 1, "the server is on one core")
    tracker.holds({"bd-1": "hang"})
    submitting = threading.Thread(target=lambda: submit(client, "bd-1"))
    submitting.start()
    child_file = tracker.folder / "child"
    wait_until(lambda: child_file.exists() and child_file.read_text(), "bd hangs")
    child = psutil.Process(int(child_file.read_text()))
    assert os.sched_getaffinity(child.ppid()) == usable_cores()
    child.parent().kill()
    child.kill()
    submitting.join(20)


@pytest.mark.requirement("BUS-04")
def test_serve_takes_the_folder_from_the_environment(
    tracker: Tracker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SHIFTBOSS_TOKEN")
    tracker.holds({"bd-1": issue("bd-1")})
    variables = {"SHIFTBOSS_BEADS": str(tracker.folder), "SHIFTBOSS_DB": str(tmp_path / "x.db")}
    with running("serve", "--port", "0", "--json", **variables) as serving:
        address = json.loads(serving.line())["address"]
        done = shiftboss("task", "submit", "bd-1", url=address)
        assert done == (0, "bd-1 is queued at position 1\n", "")


@pytest.mark.requirement("BUS-04")
def test_without_bd_the_server_does_not_start_and_says_why(tmp_path: Path) -> None:
    serve = ("serve", "--port", "0", "--db", str(tmp_path / "x.db"))
    done = shiftboss(*serve, "--beads", str(tmp_path), PATH=str(tmp_path))
    assert done == (
        1,
        "",
        "the program bd is not installed; install beads, or start the server without --beads\n",
    )


@pytest.mark.requirement("BUS-04")
def test_without_its_folder_the_server_does_not_start_and_says_why(
    tracker: Tracker, tmp_path: Path
) -> None:
    missing = tmp_path / "missing"
    serve = ("serve", "--port", "0", "--db", str(tmp_path / "x.db"))
    done = shiftboss(*serve, "--beads", str(missing))
    refusal = f"there is no folder {missing}; give an existing folder with --beads DIR\n"
    assert done == (1, "", refusal)


def _is_running(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
