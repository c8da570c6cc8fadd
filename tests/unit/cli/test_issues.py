"""Issues of the beads tracker as tasks: with our limits, in order of dependencies."""

from __future__ import annotations

import json

import pytest

from shiftboss.cli.common import options
from shiftboss.protocol import bus
from shiftboss.protocol.tracker_tasks import TrackerTask
from shiftboss.tracker import issues
from shiftboss.tracker.issues import BadIssueError, BadLine, read_issue_file, task_of


def line(bead_id: str, *depends_on: str, **members: object) -> bytes:
    issue = {"id": bead_id, "title": "T", "dependencies": list(depends_on)} | members
    return json.dumps(issue).encode()


def test_a_task_made_from_an_issue_can_be_added() -> None:
    found = task_of(
        {
            "id": "a" * 128,
            "title": "t" * 600,
            "description": "d" * 30_000,
            "priority": -(10**9),
            "dependencies": [f"bd-{number}" for number in range(200)],
            "status": "something new",
            "metadata": {"any": "thing"},
        }
    )
    bus.AddTaskRequest(
        bead_id=found.task_id,
        title=found.title,
        description=found.description,
        priority=found.priority,
        depends_on=found.depends_on,
    )
    assert found.is_done is False


def test_the_limits_are_those_of_a_task_added_by_hand() -> None:
    assert (issues.PRIORITY_MAX, issues.DEPENDENCIES_MAX) == (
        bus.PRIORITY_MAX,
        bus.DEPENDENCIES_MAX,
    )
    assert options.DEFAULT_SWARM == bus.DEFAULT_SWARM


@pytest.mark.parametrize(
    ("item", "depends_on"),
    [
        ("bd-1", ["bd-1"]),
        ({"depends_on_id": "bd-1"}, ["bd-1"]),
        ({"issue_id": "bd-9", "depends_on_id": "bd-1", "type": "blocks"}, ["bd-1"]),
        ({"id": "bd-1", "dependency_type": "blocks", "status": "open"}, ["bd-1"]),
        ({"id": "bd-1", "dependency_type": "blocks", "status": "closed"}, []),
        ({"depends_on_id": "bd-1", "type": "related"}, []),
        ({"depends_on_id": "bd-1", "type": "parent-child"}, []),
        ({"depends_on_id": "bd-1", "type": "discovered-from"}, []),
    ],
)
def test_only_blocking_links_are_dependencies(item: object, depends_on: list[str]) -> None:
    issue = {"id": "bd-2", "title": "T", "dependencies": [item]}
    assert task_of(issue).depends_on == depends_on


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ({"id": "-x"}, "id: is not a valid task id"),
        ({"id": "a\n"}, "id: is not a valid task id"),
        ({"id": 7}, "id: is not a valid task id"),
        ({"title": "a\0b"}, "title: must be a non-empty string"),
        ({"description": ["x"]}, "description: must be a string"),
        ({"priority": True}, "priority: must be an integer"),
        ({"dependencies": [None]}, "dependencies: is not a valid task id"),
        ({"dependencies": [{}]}, "depends_on_id: is not a valid task id"),
    ],
)
def test_unusable_issues_are_named(members: dict[str, object], why: str) -> None:
    with pytest.raises(BadIssueError, match=f"^{why}$"):
        task_of({"id": "bd-1", "title": "T"} | members)


def test_a_task_comes_after_its_dependencies() -> None:
    numbers = range(5_000)
    read = read_issue_file(line(f"t-{n}", *([f"t-{n + 1}"] if n < 4_999 else [])) for n in numbers)
    assert [task.task_id for task in read.in_order(set())] == [f"t-{n}" for n in reversed(numbers)]
    assert read.bad == []


def test_tasks_in_a_cycle_and_their_dependents_are_bad_lines() -> None:
    read = read_issue_file(
        [line("a", "b"), line("b", "a"), line("c", "a"), line("d", "there"), line("e", "gone")]
    )
    assert read.missing_dependencies() == ["gone", "there"]
    assert read.in_order({"there"}) == [TrackerTask("d", "T", "", 0, ["there"], False)]
    assert read.bad == [
        BadLine(1, "dependencies: b: missing, or part of a cycle"),
        BadLine(2, "dependencies: a: missing, or part of a cycle"),
        BadLine(3, "dependencies: a: missing, or part of a cycle"),
        BadLine(5, "dependencies: gone: missing, or part of a cycle"),
    ]
