"""Tasks that merge accepted work which no longer merges by itself."""

from __future__ import annotations

from shiftboss.protocol.plan import Plan
from shiftboss.rules.plans.schedule import priorities
from shiftboss.rules.runs.merge_tasks import (
    MERGES_MAX,
    is_merge_active,
    is_merge_task,
    merge_description,
    next_merge_task,
    original_of,
)


def test_a_merge_task_id_names_the_task_it_belongs_to() -> None:
    assert original_of("login-merge-2") == "login"
    assert original_of("login") == "login"
    assert is_merge_task("login-merge-1")
    assert not is_merge_task("login-merge")
    assert not is_merge_task("a-merge-0")


def test_merge_tasks_are_numbered_and_limited() -> None:
    statuses: dict[str, str] = {"login": "done"}
    for number in range(1, MERGES_MAX + 1):
        name = next_merge_task("login", statuses)
        assert name == f"login-merge-{number}"
        statuses[name] = "failed"
    assert next_merge_task("login", statuses) is None


def test_an_open_merge_task_is_reused() -> None:
    assert next_merge_task("login", {"login-merge-1": "open"}) == "login-merge-1"


def test_a_merge_is_active_while_its_task_is_queued_or_active() -> None:
    assert is_merge_active("login", {"login-merge-1": "active"})
    assert not is_merge_active("login", {"login-merge-1": "open"})
    assert not is_merge_active("login", {"logins-merge-1": "active"})


def test_the_merge_task_describes_both_sides() -> None:
    text = merge_description("abc", "main", ["a.py"], ["commit def, receipt r-1"], "")
    for part in ("git merge abc", "Conflict: a.py", "receipt r-1"):
        assert part in text


def test_the_task_that_blocks_the_most_work_comes_first() -> None:
    def task(name: str, *needs: str, **more: object) -> dict[str, object]:
        return {"id": name, "title": name, "files_owned": [name], "depends_on": list(needs), **more}

    plan = Plan.model_validate(
        {
            "goal": "g",
            "repos": {"r": {"path": "/r"}},
            "tasks": [
                task("long"),
                task("middle", "long", complexity="high"),
                task("end", "middle"),
                task("alone"),
                task("urgent", priority=1),
            ],
        }
    )
    priority = priorities(plan)
    assert priority["long"] > priority["middle"] > priority["end"] == priority["alone"]
    assert priority["urgent"] > priority["long"]
