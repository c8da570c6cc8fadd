"""Document 003: handoffs, and completions that are verified against them."""

from __future__ import annotations

import json
from typing import Any, Final

from shiftboss.conformance.checks import Broken, CheckList
from shiftboss.conformance.server.harness import ServerHarness
from shiftboss.conformance.server.repository import SpawnedTask, spawned
from shiftboss.conformance.shapes import TEXT, expect

HANDOFFS: Final[CheckList[ServerHarness]] = CheckList()

PROMPT_LINES_MAX: Final = 50
# Each of them waits for most of a minute.
VERDICT_CALLS_MAX: Final = 4
HANDOFF: Final = {
    "contract": {
        "task_id",
        "files_owned",
        "files_readonly",
        "dependencies_completed",
        "success_criteria",
    },
    "context": {"epic_summary", "your_role", "what_others_did", "what_comes_next"},
    "escalation": {"blocked_contact", "scope_change_protocol"},
}
GOOD: Final = {"src/new/service.txt": "service\n"}


@HANDOFFS.add("handoff", "003", "HO-01", "A spawn returns the document's handoff, and stores it")
def handoff(harness: ServerHarness) -> None:
    with spawned(harness) as task:
        answer = task.spawn()
        given: dict[str, Any] = answer.get("handoff") or {}
        for part, members in HANDOFF.items():
            missing = members - set(given.get(part) or {})
            if missing:
                raise Broken(f"the {part} of the handoff lacks {sorted(missing)}")
        contract = given["contract"]
        owned = ["src/auth.txt", "src/new/**"]
        expect(contract, {"task_id": task.bead_id, "files_owned": owned}, "the contract")
        if not contract["success_criteria"]:
            raise Broken("the contract has no success criterion")
        stored = task.bus.do("show_handoff", bead_id=task.bead_id)
        expect(stored, {"handoff": given, "version": 1, "hash": TEXT}, "the stored handoff")


@HANDOFFS.add("handoff-prompt", "003", "HO-03", "The prompt is compact JSON in fewer than 50 lines")
def handoff_prompt(harness: ServerHarness) -> None:
    with spawned(harness) as task:
        prompt = str(task.spawn().get("prompt"))
        lines = prompt.splitlines()
        if len(lines) >= PROMPT_LINES_MAX:
            raise Broken(f"the prompt has {len(lines)} lines")
        if not any(_is_contract(line, task.bead_id) for line in lines):
            raise Broken(f"no line of the prompt is the JSON of the contract: {prompt[:200]}")


@HANDOFFS.add("handoff-strict", "003", "HO-01", "A handoff that is not valid is refused")
def handoff_strict(harness: ServerHarness) -> None:
    with spawned(harness) as task:
        task.spawn(task.bus.name("valid"), files=["src/other.txt"])
        for changes in ({"mood": "good"}, {"success_criteria": [""]}, {"files": "src"}):
            answered = task.ask_spawn(**changes)
            if not answered.is_error:
                raise Broken(f"a spawn with {changes} was accepted")
        if not task.ask_spawn("").is_error and not task.ask_spawn(" ").is_error:
            raise Broken("a spawn with an empty task id was accepted")


@HANDOFFS.add("scope", "003", "HO-04", "Work outside of files_owned is refused, and named")
def scope(harness: ServerHarness) -> None:
    with spawned(harness) as task:
        task.taken()
        task.repository.commit({**GOOD, "README.md": "# Mine\n"})
        _expect_refused(task, "README.md")


@HANDOFFS.add("readonly", "003", "HO-04", "A change of files_readonly is refused, and named")
def readonly(harness: ServerHarness) -> None:
    with spawned(harness) as task:
        task.taken(files=["src/**"], files_readonly=["src/types.txt"])
        task.repository.commit({**GOOD, "src/types.txt": "changed\n"})
        _expect_refused(task, "src/types.txt")


@HANDOFFS.add("criteria", "003", "HO-05", "A criterion that fails refuses the work")
def criteria(harness: ServerHarness) -> None:
    with spawned(harness) as task:
        task.taken()
        task.repository.commit({"src/auth.txt": "better\n"})
        _expect_refused(task, "src/new/service.txt")


@HANDOFFS.add("accepted", "003", "HO-05", "Work that fulfils the contract is accepted")
def accepted(harness: ServerHarness) -> None:
    with spawned(harness) as task:
        task.taken()
        commit = task.repository.commit(GOOD)
        answer = _complete(task, files_touched=list(GOOD))
        expect(answer, {"success": True, "status": "accepted", "commit": commit}, "the answer")
        expect(task.bus.do("show_task", bead_id=task.bead_id), {"status": "done"}, "the task")


@HANDOFFS.add("done-is-verified", "003", "HO-05", "worker_done leads to the same verification")
def done_is_verified(harness: ServerHarness) -> None:
    with spawned(harness) as task:
        task.taken()
        task.repository.commit({**GOOD, "README.md": "# Mine\n"})
        answer = task.bus.refused("worker_done", bead_id=task.bead_id)
        if "README.md" not in json.dumps(answer):
            raise Broken(f"the refusal does not name README.md: {answer}")


@HANDOFFS.add("dependencies", "003", "HO-06", "Dependencies that are not finished refuse a spawn")
def dependencies(harness: ServerHarness) -> None:
    with spawned(harness) as task:
        (unfinished,) = task.bus.add("before")
        task.spawn(task.bus.name("valid"), files=["src/other.txt"])
        answered = task.ask_spawn(dependencies_completed=[unfinished])
        if not answered.is_error or unfinished not in json.dumps(answered.document):
            raise Broken(f"the spawn got {answered.document}")


@HANDOFFS.add("overlap", "003", "HO-07", "Two tasks in flight do not own the same files")
def overlap(harness: ServerHarness) -> None:
    with spawned(harness) as task:
        task.spawn()
        for files in (["src/new/**"], ["src/*.txt"], ["src/new/a/b.txt"]):
            answered = task.ask_spawn(task.bus.name("second"), files=files)
            if not answered.is_error or task.bead_id not in json.dumps(answered.document):
                raise Broken(f"a second task with {files} got {answered.document}")


def _complete(task: SpawnedTask, **members: object) -> dict[str, Any]:
    """The verdict, which may take a while."""
    for _ in range(VERDICT_CALLS_MAX):
        answered = task.bus.ask(
            "swarm_complete", seconds=90, bead_id=task.bead_id, summary="Done", **members
        )
        if answered.document.get("status") != "verifying":
            return answered.document
    raise Broken("there is no verdict")


def _expect_refused(task: SpawnedTask, name: str) -> None:
    answer = _complete(task)
    if "error" not in answer:
        raise Broken(f"the work was accepted: {answer}")
    if name not in json.dumps(answer):
        raise Broken(f"the refusal does not name {name}: {answer}")
    expect(task.bus.do("show_task", bead_id=task.bead_id), {"status": "active"}, "the task")


def _is_contract(line: str, bead_id: str) -> bool:
    try:
        document = json.loads(line)
    except ValueError:
        return False
    return isinstance(document, dict) and document.get("contract", {}).get("task_id") == bead_id
