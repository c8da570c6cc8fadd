"""The state of a plan's tasks, read from the server whenever something has changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from shiftboss.orchestrator.run.progress import Stage
from shiftboss.orchestrator.run.run_context import RunContext
from shiftboss.rules.runs.records import WAITS_FOR_ANSWER
from shiftboss.rules.runs.waits import hold_text, question_text, review_text

# Prefix of the failure of an attempt that needs a person: it was denied a tool. The next attempt
# gets the answer.
BLOCKED: Final = "BLOCKED"


class PlanStatus(NamedTuple):
    """`views` are all tasks of the swarm. `landable` are those that are accepted and have not
    landed, in the order in which they were accepted. `held` are those that wait for a person, with
    the reason and the command that helps: a question, an exhausted budget, a pause without an end,
    a review. `questions` are the open questions that they wait for."""

    views: Mapping[str, dict[str, Any]]
    landable: Mapping[str, dict[str, Any]]
    held: Mapping[str, str]
    questions: Sequence[dict[str, Any]] = ()

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

    def is_in_review(self, bead_id: str) -> bool:
        view = self.views.get(bead_id)
        return view is not None and _is_in_review(view)

    def stage_of_held(self, bead_id: str) -> Stage:
        if self.is_in_review(bead_id):
            return "in review"
        if any(question["bead_id"] == bead_id for question in self.questions):
            return "blocked"
        return "parked"

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
    holds = await _holds_without_end(run)
    questions = await _questions_to_answer(run, views, holds)
    return PlanStatus(views, landable, _held_tasks(run, views, holds, questions), questions)


async def _tasks_by_id(run: RunContext, operation: str) -> dict[str, dict[str, Any]]:
    return {task["bead_id"]: task for task in await run.client.all_of(operation, "tasks")}


async def _holds_without_end(run: RunContext) -> list[dict[str, Any]]:
    """Those that only a person can lift."""
    holds = (await run.client.call("get_status")).get("holds") or []
    return [hold for hold in holds if hold["until"] is None]


async def _questions_to_answer(
    run: RunContext, views: Mapping[str, dict[str, Any]], holds: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    parked = {hold["bead_id"] for hold in holds if hold["reason"] == WAITS_FOR_ANSWER}
    answer = await run.client.call("list_questions", only_open=True)
    return [
        question
        for question in answer["questions"]
        if question["bead_id"] in parked
        or _waits_for_answer(views.get(question["bead_id"]) or {"status": "missing"})
    ]


def _held_tasks(
    run: RunContext,
    views: Mapping[str, dict[str, Any]],
    holds: Sequence[dict[str, Any]],
    questions: Sequence[dict[str, Any]],
) -> dict[str, str]:
    swarm_id = run.client.swarm_id
    held: dict[str, str] = {}
    for hold in holds:
        bead_ids = list(views) if hold["bead_id"] is None else [hold["bead_id"]]
        held |= {
            bead_id: hold_text(hold, swarm_id)
            for bead_id in bead_ids
            if bead_id in views and views[bead_id]["status"] in ("open", "queued")
        }
    held |= {
        bead_id: review_text(bead_id, view["review"]["commit"], swarm_id)
        for bead_id, view in views.items()
        if _is_in_review(view)
    }
    # The question explains more than the hold that it caused.
    held |= {question["bead_id"]: question_text(question, swarm_id) for question in questions}
    return held


def _is_in_review(view: Mapping[str, Any]) -> bool:
    review = view.get("review")
    return view["status"] == "done" and review is not None and review["state"] == "open"


def _waits_for_answer(view: Mapping[str, Any]) -> bool:
    if view["status"] == "active":
        return view.get("state") == "blocked"
    return view["status"] == "failed" and str(view["last_error"]).startswith(BLOCKED)
