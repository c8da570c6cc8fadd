"""Judging whether a plan can run, from facts about its repositories, agents and programs."""

from __future__ import annotations

from typing import Any

import pytest

from shiftboss.protocol.plan import Plan
from shiftboss.rules.plans.preflight import (
    PlanFacts,
    PreflightFinding,
    RepoFacts,
    judge,
    programs_of,
)

pytestmark = pytest.mark.requirement("OWN-01")

READY = RepoFacts(head="main", branches=frozenset(["main"]))


def made(*tasks: dict[str, Any], **repo: Any) -> Plan:
    usual: dict[str, Any] = {"title": "T", "files_owned": ["src/"]}
    return Plan.model_validate(
        {
            "goal": "G",
            "repos": {"app": {"path": "/my app"} | repo},
            "tasks": [usual | task for task in tasks] or [usual | {"id": "a"}],
        }
    )


def judged(plan: Plan, repo: RepoFacts = READY, **facts: Any) -> list[PreflightFinding]:
    known: dict[str, Any] = {"repos": {"app": repo}, "unavailable": {}, "missing_programs": ()}
    return list(judge(plan, PlanFacts(**known | facts)))


def test_a_plan_that_can_run_has_no_findings() -> None:
    assert judged(made()) == []
    assert judged(made(branch="main"), READY._replace(head=None)) == []


@pytest.mark.parametrize(
    ("facts", "repo", "key", "end"),
    [
        (RepoFacts(unusable="broken"), {}, "path", "broken"),
        (
            RepoFacts(head="main", has_commits=False),
            {},
            "path",
            "run: git -C '/my app' commit --allow-empty -m 'First commit'",
        ),
        (READY._replace(head=None), {}, "branch", "or run: git -C '/my app' switch main"),
        (RepoFacts(head=None), {}, "branch", "or run: git -C '/my app' switch -c main"),
        (READY, {"branch": "mian"}, "branch", "no branch 'mian'; did you mean 'main'?"),
        (READY, {"branch": "v2"}, "branch", "create it: git -C '/my app' branch v2"),
        (
            READY._replace(remote_branches=frozenset({"fork/a&b", "origin/a&b", "x/a&b"})),
            {"branch": "a&b"},
            "branch",
            "create it: git -C '/my app' branch 'a&b' 'origin/a&b'",
        ),
        (
            READY._replace(remote_branches=frozenset(["origin/v2"])),
            {"branch": "v2"},
            "branch",
            "create it: git -C '/my app' branch v2 origin/v2",
        ),
        (
            READY._replace(branches=frozenset(["main", "shiftboss"])),
            {},
            "path",
            "rename it: git -C '/my app' branch -m shiftboss shiftboss-old",
        ),
    ],
)
def test_a_problem_names_its_key_and_what_helps(
    facts: RepoFacts, repo: dict[str, Any], key: str, end: str
) -> None:
    (finding,) = judged(made(**repo), facts)
    assert finding.path == ("repos", "app", key)
    assert finding.message.endswith(end)
    assert not finding.is_warning


def test_uncommitted_changes_matter_where_a_task_owns_the_file() -> None:
    plan = made({"id": "a"}, {"id": "b", "files_owned": ["docs/"]})
    changed = READY._replace(changed=frozenset(["src/a.py", "README.md"]), unfinished="a merge")
    unfinished, dirty = judged(plan, changed)
    assert (unfinished.path, unfinished.is_warning) == (("repos", "app", "path"), True)
    assert (dirty.path, dirty.is_warning) == (("tasks", 0, "files_owned"), True)
    assert dirty.message.startswith("/my app has uncommitted changes in src/a.py: ")


def test_an_agent_is_reported_once_where_the_plan_names_it_with_its_tasks() -> None:
    plan = made(*({"id": f"t{number}"} for number in range(7)), {"id": "x", "agent": "codex"})
    default, named = judged(plan, unavailable={"claude": "not here", "codex": "nor this"})
    assert default.path == ("agent",)
    assert default.message == (
        "claude cannot be started (tasks t0, t1, t2, t3, t4 and 2 more): not here"
    )
    assert named == (("tasks", 7, "agent"), "codex cannot be started (task x): nor this", False)


def test_programs_are_those_that_have_to_be_on_the_path() -> None:
    criteria = ["Tests pass: pytest", "Command passes: ./check.sh", "It is nice"]
    plan = made({"id": "a", "criteria": criteria}, setup=["/opt/make all"])
    programs = dict(programs_of(plan))
    assert programs == {
        ("repos", "app", "setup", 0): "/opt/make",
        ("tasks", 0, "criteria", 0): "pytest",
    }
    (finding,) = judged(plan, missing_programs={"pytest"})
    assert (finding.path, finding.is_warning) == (("tasks", 0, "criteria", 0), True)


@pytest.mark.parametrize(
    ("criterion", "instead"),
    [
        ("Command passes: python -m pytest -k 'a b'", "`Tests pass: python -m pytest -k 'a b'`"),
        ("Command passes: uv run pytest", "`Tests pass: uv run pytest`"),
        ("Type check passes: go test ./...", "`Tests pass: go test ./...`"),
    ],
)
def test_a_test_runner_whose_exit_code_alone_counts_is_a_warning(
    criterion: str, instead: str
) -> None:
    (found,) = judged(made({"id": "a", "criteria": ["it works", criterion]}))
    assert found.is_warning
    assert found.path == ("tasks", 0, "criteria", 1)
    assert found.message.endswith(f"write {instead}")


@pytest.mark.parametrize(
    "criterion",
    [
        "Tests pass: pytest",
        "Command passes: make test",
        "Command passes: pytest --collect-only",
        "Command passes: cargo test --no-run",
        "Command passes: go vet ./...",
        "Type check passes: mypy",
    ],
)
def test_other_criteria_are_no_warning(criterion: str) -> None:
    assert judged(made({"id": "a", "criteria": [criterion]})) == []
