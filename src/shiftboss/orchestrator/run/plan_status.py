"""The state of a plan's tasks, read from the server whenever something has changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from shiftboss.orchestrator.run.run_context import RunContext

# Prefix of the failure of an attempt that needs a person: it was denied a tool, or it asked a
# question. The next attempt gets the answer.
BLOCKED: Final = "BLOCKED"


class PlanStatus(NamedTuple):
    """`views` are all tasks of the swarm. `landable` are those that are accepted and have not
    landed, in the order in which they were accepted. `held` are those that wait for a person, with
    the reason: a question, an exhausted budget, a pause without an end."""

    views: Mapping[str, dict[str, Any]]
    landable: Mapping[str, dict[str, Any]]
    held: Mapping[str, str]

    def status(self, bead_id: str) -> str:
        view = self.views.get(bead_id)
        return view["status"] if view is not None else "missing"

    def has_landed(self, bead_id: str) -> bool:
        view = self.views.get(bead_id)
        return view is not None and view.get("landed_commit") is not None

    def statuses(self, attempts: int) -> dict[str, str]:
        """The status of every task. A failed task that will be tried again counts as queued."""
        return {
            bead_id: "queued"
            if view["status"] == "failed" and view["failures"] < attempts
            else view["status"]
            for bead_id, view in self.views.items()
        }

    @property
    def snapshot(self) -> dict[str, tuple[str, int]]:
        """Status and number of failures of every task: differs as soon as anything has happened."""
        return {bead_id: (view["status"], view["failures"]) for bead_id, view in self.views.items()}

    @property
    def is_busy(self) -> bool:
        """Whether a task is being worked on, or will be without anybody's help."""
        return any(
            view["status"] in ("active", "queued") and bead_id not in self.held
            for bead_id, view in self.views.items()
        )


async def read_plan_status(run: RunContext) -> PlanStatus:
    views = await _tasks_by_id(run, "list_tasks")
    landable = await _tasks_by_id(run, "list_landable")
    return PlanStatus(views, landable, await _held_tasks(run, views))


async def _tasks_by_id(run: RunContext, operation: str) -> dict[str, dict[str, Any]]:
    return {task["bead_id"]: task for task in await run.client.all_of(operation, "tasks")}


async def _held_tasks(run: RunContext, views: Mapping[str, dict[str, Any]]) -> dict[str, str]:
    answer = await run.client.call("list_questions", only_open=True)
    held = {
        question["bead_id"]: question_text(question, run.client.swarm_id)
        for question in answer["questions"]
        if question["bead_id"] in views and _waits_for_answer(views[question["bead_id"]])
    }
    for hold in (await run.client.call("get_status")).get("holds") or []:
        if hold["until"] is None:
            bead_ids = [hold["bead_id"]] if hold["bead_id"] is not None else list(views)
            held |= {
                bead_id: hold["reason"]
                for bead_id in bead_ids
                if views[bead_id]["status"] in ("open", "queued", "failed")
            }
    return held


def _waits_for_answer(view: Mapping[str, Any]) -> bool:
    if view["status"] == "active":
        return view.get("state") == "blocked"
    return view["status"] == "failed" and str(view["last_error"]).startswith(BLOCKED)


def question_text(question: Mapping[str, Any], swarm_id: str) -> str:
    """The first line of a question, and the command that answers it."""
    first_line = str(question["question"]).partition("\n")[0]
    number = question["question_id"]
    return (
        f"question {number}: {first_line} "
        f"(answer it: shiftboss questions answer {number} TEXT --swarm {swarm_id})"
    )
