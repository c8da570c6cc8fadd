"""The commands of the bus: tasks, workers and questions, against a real server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.acceptance.bus.bus import ask, submitted, task
from tests.client import Client
from tests.commands import imported_by, on_terminal, shiftboss
from tests.running import RunningServer

UNKNOWN = (
    "Unknown task: nope; `shiftboss task list` lists the existing ones; add it first if it is new\n"
)


@pytest.fixture
def server(shared_server: RunningServer, shared_client: Client) -> RunningServer:
    """Of all tests of this module; each begins without a swarm."""
    return shared_server


@pytest.fixture
def client(shared_client: Client) -> Client:
    return shared_client


def issue(bead_id: str, **members: object) -> str:
    return json.dumps({"id": bead_id, "title": f"Title of {bead_id}", "status": "open"} | members)


def blocked_by(*bead_ids: str, kind: str = "blocks") -> list[dict[str, str]]:
    return [{"issue_id": "x", "depends_on_id": one, "type": kind} for one in bead_ids]


def beads_file(folder: Path, *lines: str) -> str:
    path = folder / "issues.jsonl"
    text = "".join(f"{line}\n" for line in lines)
    path.write_bytes(text.encode(errors="surrogateescape"))
    return str(path)


@pytest.mark.requirement("BUS-04")
def test_an_added_task_has_the_given_settings(server: RunningServer, client: Client) -> None:
    assert shiftboss("task", "add", "first", "--title", "One", url=server.url) == (
        0,
        "added task first\n",
        "",
    )
    done = shiftboss(
        *("task", "add", "second", "--title", "Two", "--description", "All of it"),
        *("--priority", "7", "--depends-on", "first", "--json"),
        url=server.url,
    )
    assert json.loads(done.out) == task(client, "second")
    added = task(client, "second")
    assert (added["title"], added["description"]) == ("Two", "All of it")
    assert (added["priority"], added["depends_on"], added["status"]) == (7, ["first"], "open")


@pytest.mark.requirement("BUS-04")
def test_submitting_a_task_shows_where_it_went(server: RunningServer, client: Client) -> None:
    for bead_id in ("a", "b"):
        ask(client, "add_task", bead_id=bead_id, title="T")
    ask(client, "add_task", bead_id="c", title="T", depends_on=["a", "b"])
    assert shiftboss("task", "submit", "a", url=server.url).out == "a is queued at position 1\n"
    assert shiftboss("task", "submit", "c", url=server.url).out == "c waits for a, b\n"
    ask(client, "register_worker", name="z.ai1")
    ask(client, "register_worker", name="z.ai2")
    assert shiftboss("task", "submit", "b", url=server.url).out == "b is assigned to z.ai2\n"


@pytest.mark.requirement("BUS-04", "BUS-07")
def test_tasks_are_listed_and_shown_with_their_errors(
    server: RunningServer, client: Client
) -> None:
    ask(client, "register_worker", name="z.ai1")
    submitted(client, "a", "b")
    ask(client, "ack_task", name="z.ai1", bead_id="a")
    ask(client, "task_failed", bead_id="a", reason="Build failed")
    listed = [line.split() for line in _lines("task", "list", url=server.url)]
    assert listed[0] == ["ID", "STATUS", "PRIORITY", "TRY", "WORKER", "UPDATED", "TITLE"]
    assert listed[1][:5] == ["a", "failed", "0", "1", "z.ai1"]
    assert listed[2][:5] == ["b", "active", "0", "1", "z.ai1"]
    shown = [line.split() for line in _lines("task", "show", "a", url=server.url)]
    assert ["title", "Title", "of", "a"] in shown
    assert ["status", "failed"] in shown
    assert ["error", "Build", "failed"] in shown


@pytest.mark.requirement("BUS-04")
def test_a_long_list_is_shown_page_by_page(server: RunningServer, client: Client) -> None:
    for number in range(3):
        ask(client, "add_task", bead_id=f"t-{number}", title="T")
    lines = _lines("task", "list", "--limit", "2", url=server.url)
    assert len(lines) == 4
    assert lines[-1] == "there are more: shiftboss task list --all"
    done = shiftboss("task", "list", "--all", "--json", url=server.url)
    assert [one["bead_id"] for one in json.loads(done.out)["tasks"]] == ["t-0", "t-1", "t-2"]


@pytest.mark.requirement("BUS-07")
def test_a_failed_task_can_be_retried_and_a_task_can_be_cancelled(
    server: RunningServer, client: Client
) -> None:
    ask(client, "register_worker", name="z.ai1")
    submitted(client, "a")
    ask(client, "ack_task", name="z.ai1", bead_id="a")
    ask(client, "task_failed", bead_id="a", reason="no")
    assert shiftboss("task", "retry", "a", url=server.url) == (0, "a is active\n", "")
    assert task(client, "a")["epoch"] == 2
    cancelled = shiftboss("task", "cancel", "a", "--reason", "not needed", url=server.url)
    assert cancelled == (0, "a is cancelled\n", "")
    assert "not needed" in shiftboss("task", "show", "a", url=server.url).out
    refused = shiftboss("task", "submit", "a", url=server.url)
    assert refused == (
        1,
        "",
        (
            "Task a is cancelled; nothing was changed; "
            "`shiftboss task retry a --swarm default` brings it back\n"
        ),
    )
    assert shiftboss("task", "retry", "a", url=server.url) == (0, "a is active\n", "")


@pytest.mark.requirement("BUS-04")
@pytest.mark.parametrize("command", ["show", "submit", "retry", "cancel"])
def test_an_unknown_task_is_a_one_line_error(server: RunningServer, command: str) -> None:
    assert shiftboss("task", command, "nope", url=server.url) == (1, "", UNKNOWN)


@pytest.mark.requirement("BUS-04")
def test_each_swarm_has_its_own_tasks(server: RunningServer, client: Client) -> None:
    client.create_swarm(swarm_id="other")
    assert shiftboss("task", "add", "a", "--title", "T", "--swarm", "other", url=server.url)[0] == 0
    assert shiftboss("task", "list", "--swarm", "default", url=server.url).out.startswith(
        "no tasks; "
    )
    assert len(_lines("task", "list", "--swarm", "other", url=server.url)) == 2
    refused = shiftboss("task", "list", "--swarm", "nope", "--json", url=server.url)
    assert (refused.code, json.loads(refused.out)["code"]) == (1, "unknown_swarm")


@pytest.mark.requirement("BUS-07")
def test_workers_are_listed_and_a_stuck_one_can_be_reset(
    server: RunningServer, client: Client
) -> None:
    assert _lines("worker", "list", url=server.url) == ["no workers", "0 queued"]
    ask(client, "register_worker", name="z.ai1")
    submitted(client, "a", "b")
    ask(client, "ack_task", name="z.ai1", bead_id="a")
    lines = [line.split() for line in _lines("worker", "list", url=server.url)]
    assert lines == [
        ["NAME", "STATUS", "TASK", "IDLE"],
        ["z.ai1", "executing", "a", "0s"],
        ["1", "queued"],
    ]
    done = shiftboss("worker", "reset", "z.ai1", url=server.url)
    assert done == (0, "z.ai1 is free; a is queued again\n", "")
    status = json.loads(shiftboss("worker", "list", "--json", url=server.url).out)
    assert status["workers"][0]["status"] == "pending"
    unknown = shiftboss("worker", "reset", "nobody", url=server.url)
    assert unknown == (1, "", "Unknown worker: nobody - call register_worker first\n")


@pytest.mark.requirement("WP-07")
def test_questions_are_listed_and_answered_once(server: RunningServer, client: Client) -> None:
    assert _lines("questions", "list", url=server.url) == ["no open questions"]
    ask(client, "register_worker", name="z.ai1")
    submitted(client, "a")
    ask(client, "ack_task", name="z.ai1", bead_id="a")
    blocked = {
        "type": "blocked",
        "worker_id": "z.ai1",
        "timestamp": "2026-01-05T10:00:00Z",
        "payload": {"question": "Which database?\nOld or \x1b[1mnew?", "contact": "dba"},
    }
    assert client.post("/messages", blocked).status_code == 200
    lines = _lines("questions", "list", url=server.url)
    assert lines[1].split()[:4] == ["1", "a", "z.ai1", "dba"]
    assert lines[1].split()[-2:] == ["Which", "database?"]
    assert lines[2].strip() == r"Old or \x1b[1mnew?"
    done = shiftboss("questions", "answer", "1", "the old one", url=server.url)
    assert done == (0, "z.ai1 gets the answer and continues with a\n", "")
    assert _lines("questions", "list", url=server.url) == ["no open questions"]
    assert "the old one" in _lines("questions", "list", "--all", url=server.url)[1]
    again = shiftboss("questions", "answer", "1", "another", url=server.url)
    assert again == (1, "", "question 1 already has another answer; nothing was changed\n")
    unknown = shiftboss("questions", "answer", "9", "what", url=server.url)
    assert unknown == (1, "", "Unknown question: 9\n")


@pytest.mark.requirement("BUS-04")
def test_open_issues_of_a_beads_file_become_tasks_with_their_dependencies(
    server: RunningServer, client: Client, tmp_path: Path
) -> None:
    file = beads_file(
        tmp_path,
        issue("bd-3", dependencies=blocked_by("bd-2", "bd-1"), priority=0, labels=["x"]),
        issue("bd-2", dependencies=blocked_by("bd-9", kind="related"), status="in_progress"),
        issue("bd-1", status="closed"),
        "",
        issue("bd-4", description="What to do", priority=4, dependencies=["bd-3"]),
    )
    done = shiftboss("task", "import", file, url=server.url)
    assert done == (0, "imported 3, skipped 1 that are done\n", "")
    tasks = {one["bead_id"]: one for one in ask(client, "list_tasks")["tasks"]}
    assert {name: one["depends_on"] for name, one in tasks.items()} == {
        "bd-2": [],
        "bd-3": ["bd-2"],
        "bd-4": ["bd-3"],
    }
    # In the tracker 0 is the most urgent priority; here it is the normal one.
    assert [tasks[name]["priority"] for name in ("bd-3", "bd-2", "bd-4")] == [2, 0, -2]
    assert tasks["bd-4"]["description"] == "What to do"
    again = shiftboss("task", "import", file, "--json", url=server.url)
    assert json.loads(again.out) == {
        "imported": ["bd-2", "bd-3", "bd-4"],
        "done": 1,
        "skipped": [],
    }


@pytest.mark.requirement("BUS-04")
@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ("{", "not JSON"),
        ('{"id": "\udcff"}', "not JSON"),
        ("[]", "not a JSON object"),
        ('{"title": "no id"}', "id: is not a valid task id"),
        (issue("--help"), "id: is not a valid task id"),
        (issue("bd-2", title=" "), "title: must be a non-empty string"),
        (issue("bd-2", priority="high"), "priority: must be an integer"),
        (issue("bd-2", dependencies="bd-1"), "dependencies: must be a list"),
        (issue("bd-2", dependencies=["; rm -rf"]), "dependencies: is not a valid task id"),
        (issue("bd-2", dependencies=["bd-2"]), "dependencies: bd-2: missing, or part of a cycle"),
        (issue("bd-2", dependencies=["bd-8"]), "dependencies: bd-8: missing, or part of a cycle"),
        (issue("bd-1"), "id: bd-1 is on an earlier line as well"),
    ],
)
def test_a_bad_line_stops_the_import_unless_bad_lines_may_be_skipped(
    server: RunningServer, client: Client, tmp_path: Path, bad: str, why: str
) -> None:
    file = beads_file(tmp_path, issue("bd-1"), bad, issue("bd-3"))
    done = shiftboss("task", "import", file, url=server.url)
    assert done == (
        1,
        "",
        f"{file}, line 2: {why}; nothing was imported; --skip-bad skips such lines\n",
    )
    assert ask(client, "list_tasks")["tasks"] == []
    skipped = shiftboss("task", "import", file, "--skip-bad", url=server.url)
    assert skipped == (
        0,
        "imported 2, skipped 0 that are done\n",
        f"{file}, line 2: {why}; skipped\n",
    )
    assert [one["bead_id"] for one in ask(client, "list_tasks")["tasks"]] == ["bd-1", "bd-3"]


@pytest.mark.requirement("BUS-04")
def test_imported_tasks_can_depend_on_existing_tasks(
    server: RunningServer, client: Client, tmp_path: Path
) -> None:
    ask(client, "add_task", bead_id="there", title="T")
    file = beads_file(tmp_path, issue("bd-1", dependencies=["there"]))
    assert shiftboss("task", "import", file, url=server.url).code == 0
    assert task(client, "bd-1")["depends_on"] == ["there"]


@pytest.mark.requirement("BUS-04")
def test_a_missing_file_is_a_one_line_error(server: RunningServer, tmp_path: Path) -> None:
    missing = tmp_path / "missing.jsonl"
    done = shiftboss("task", "import", str(missing), url=server.url)
    assert done == (1, "", f"cannot read {missing}: No such file or directory\n")


@pytest.mark.requirement("BUS-04")
def test_an_import_shows_its_progress_on_a_terminal(server: RunningServer, tmp_path: Path) -> None:
    file = beads_file(tmp_path, *(issue(f"bd-{number}") for number in range(20)))
    written = on_terminal("task", "import", file, url=server.url, columns=80)
    assert "importing" in written
    assert written.endswith("imported 20, skipped 0 that are done\n")


@pytest.mark.requirement("BUS-04")
@pytest.mark.parametrize(
    "command", [("task", "list"), ("worker", "list"), ("questions", "list")], ids=" ".join
)
def test_everyday_bus_commands_import_nothing_heavy(
    server: RunningServer, command: tuple[str, ...]
) -> None:
    imported = imported_by(*command, "--json", url=server.url)
    assert imported & {"pydantic", "pydantic_core", "httpx2", "mcp", "asyncio", "rich"} == set()


def _lines(*arguments: str, url: str) -> list[str]:
    done = shiftboss(*arguments, url=url)
    assert (done.code, done.err) == (0, ""), done
    return done.out.splitlines()
