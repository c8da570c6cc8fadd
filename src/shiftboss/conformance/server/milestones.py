"""Document 004: milestones, failures and the locks of repos."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any, Final

from shiftboss.conformance.checks import Broken, CheckList, NotChecked
from shiftboss.conformance.server.harness import ServerHarness
from shiftboss.conformance.server.repository import SpawnedTask, spawned
from shiftboss.conformance.shapes import expect

MILESTONES: Final[CheckList[ServerHarness]] = CheckList()

TRANSIENT: Final = ("network_timeout", "api_rate_limit", "ci_runner_busy", "502_bad_gateway")
RECOVERABLE: Final = (
    "test_failure",
    "lint_error",
    "build_error",
    "clippy_warning",
    "missing_import",
)
BACKOFF_SECONDS: Final = (5, 10, 20)
DONE_LINE: Final = "DONE: {repo} CI run #452 all green, radicle-push: success"


@MILESTONES.add("working", "004", "CC-02", "WORKING is recorded, with its substate and progress")
def working(harness: ServerHarness) -> None:
    with spawned(harness) as task:
        task.taken()
        answer = _report(task, "WORKING: Implementing AX token types in vm/types/ax.rs")
        expect(answer, {"milestone": "WORKING", "status": "recorded"}, "the answer")
        answer = _report(task, "WORKING: More of it [substate: writing_tests] [files: 3/5]")
        if "3/5" not in str(answer.get("progress")):
            raise Broken(f"the progress is not in the answer: {answer}")


@MILESTONES.add("order", "004", "CC-02", "Milestones follow the document's transitions")
def order(harness: ServerHarness) -> None:
    with spawned(harness) as task:
        task.taken()
        repo = task.repository.folder.name
        _report(task, "WORKING: Setting up")
        _refuse(task, "FIXING_CI: test job - missing mock for CreditPool")
        _refuse(task, DONE_LINE.format(repo=repo))
        commit = task.repository.commit({"src/new/service.txt": "service\n"})
        pushed = f"PUSHED_TO_CI: {repo} commit {commit[:7]} - CI run #451"
        expect(_report(task, pushed), {"milestone": "PUSHED_TO_CI"}, "the answer")
        _refuse(task, "WORKING: Something else")


@MILESTONES.add(
    "required-info", "004", "CC-09", "Lines without their required information are refused"
)
def required_info(harness: ServerHarness) -> None:
    with spawned(harness) as task:
        task.taken()
        repo = task.repository.folder.name
        _report(task, "WORKING: Setting up")
        for line in (
            f"PUSHED_TO_CI: {repo}",
            f"PUSHED_TO_CI: {repo} commit 0123456 - CI run #1",
            "DONE: it works",
            f"DONE: {repo} all green",
            "AWAITING_CI: please wait",
            "FIXING_CI:",
        ):
            _refuse(task, line)
        view = task.bus.do("show_task", bead_id=task.bead_id)
        expect(view, {"status": "active"}, "the task")


@MILESTONES.add(
    "permission", "004", "CC-07", "The second denial of a tool in a row ends the worker"
)
def permission(harness: ServerHarness) -> None:
    with spawned(harness) as task:
        task.taken()
        denial = {"error_type": "bash_permission_denied", "tool": "Bash"}
        first = _fail(task, **denial)
        if first.get("action") == "terminate":
            raise Broken(f"the first denial ended the worker: {first}")
        second = _fail(task, **denial)
        expect(second, {"action": "terminate"}, "the answer to the second denial")
        if "BLOCKED_PERMISSION: Bash" not in str(second.get("message")):
            raise Broken(f"the report line is not in the answer: {second}")
        expect(task.bus.refused("worker_done", bead_id=task.bead_id), {"success": False}, "it")


@MILESTONES.add("transient", "004", "CC-15", "Transient failures are retried after 5, 10 and 20 s")
def transient(harness: ServerHarness) -> None:
    with spawned(harness) as task:
        task.taken()
        for error_type, seconds in zip(TRANSIENT, BACKOFF_SECONDS, strict=False):
            answer = _fail(task, error_type=error_type)
            expected = {"failure_class": "transient", "action": "retry"}
            expect(answer, {**expected, "retry_in_seconds": seconds}, f"the answer to {error_type}")
        answer = _fail(task, error_type=TRANSIENT[-1])
        if answer.get("action") == "retry":
            raise Broken(f"the fourth transient failure is retried: {answer}")


@MILESTONES.add(
    "recoverable", "004", "CC-15", "The worker fixes recoverable failures; then it asks"
)
def recoverable(harness: ServerHarness) -> None:
    with spawned(harness) as task:
        task.taken()
        actions = []
        for error_type in RECOVERABLE:
            answer = _fail(task, error_type=error_type)
            expect(answer, {"failure_class": "recoverable"}, f"the answer to {error_type}")
            actions.append(answer.get("action"))
        if actions[:2] != ["fix", "fix"] or "fix" in actions[2:]:
            raise Broken(f"the actions are {actions}, not twice fix and then an escalation")


@MILESTONES.add(
    "spawn-prompt", "004", "CC-08", "The prompt of a spawn has no CI address or command"
)
def spawn_prompt(harness: ServerHarness) -> None:
    with spawned(harness) as task:
        task.taken()
        text = str(task.bus.do("get_worker_prompt", bead_id=task.bead_id).get("text"))
        for forbidden in ("http://", "https://", "curl ", "token"):
            if forbidden in text.lower():
                raise Broken(f"the prompt has {forbidden!r}: {text}")
        if "PUSHED_TO_CI" not in text:
            raise Broken(f"the prompt does not say what to load at PUSHED_TO_CI: {text}")


@MILESTONES.add("repos", "004", "CC-05", "can_spawn answers for every repo of the policy")
def repos(harness: ServerHarness) -> None:
    for repo in _repos(harness):
        answer = harness.bus().do("can_spawn", repo=repo["repo"])
        expect(answer, {"repo": repo["repo"]}, "the answer")
        if not isinstance(answer.get("can_spawn"), bool):
            raise Broken(f"can_spawn is no yes or no: {answer}")
        is_blocked = bool(answer.get("blockers"))
        if answer["can_spawn"] is is_blocked:
            raise Broken(f"the answer and its blockers disagree: {answer}")


@MILESTONES.add(
    "phases", "004", "CC-06", "Repos are in phases, each after those that it depends on"
)
def phases(harness: ServerHarness) -> None:
    listed = _repos(harness)
    phase_of = {repo["repo"]: repo["phase"] for repo in listed}
    for repo in listed:
        for dependency in repo["depends_on"]:
            if phase_of[dependency] >= repo["phase"]:
                raise Broken(f"{repo['repo']} is not in a later phase than {dependency}")
    order = [repo["phase"] for repo in listed]
    if any(later < earlier for earlier, later in pairwise(order)):
        raise Broken(f"the repos are not listed by phase: {phase_of}")


def _repos(harness: ServerHarness) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = harness.bus().do("list_repos").get("repos") or []
    if not listed:
        raise NotChecked("the server has no policy with repos")
    return listed


def _report(task: SpawnedTask, line: str) -> dict[str, Any]:
    return task.bus.do("report_milestone", bead_id=task.bead_id, line=line)


def _refuse(task: SpawnedTask, line: str) -> None:
    answered = task.bus.ask("report_milestone", bead_id=task.bead_id, line=line)
    if not answered.is_error:
        raise Broken(f"{line!r} was accepted: {json.dumps(answered.document)[:200]}")


def _fail(task: SpawnedTask, **members: object) -> dict[str, Any]:
    return task.bus.do("report_failure", bead_id=task.bead_id, message="It failed", **members)
