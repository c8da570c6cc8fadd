"""The state of a plan's tasks, read from the server whenever something has changed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

from shiftboss.orchestrator.run.progress import Stage
from shiftboss.orchestrator.run.run_context import RunContext
from shiftboss.rules.tasks.waiting import HERE, CommandPlace, in_one_line

# Prefix of the failure of an attempt that needs a person: it was denied a tool. The next attempt
# gets the answer.
BLOCKED: Final = "BLOCKED"
# Reasons that want an answer in words.
_ASKED: Final = ("question", "dispute")


class PlanStatus(NamedTuple):
    """`views` are all tasks of the swarm. `landable` are those that are accepted and have not
    landed, in the order in which they were accepted. `held` are those that wait for a person, with
    the server's reason and the command that helps: a question, a request for files, an exhausted
    budget, a pause without an end, a review. `questions` are those that want an answer in words;
    `asking` are the tasks that wait for an answer of any kind."""

    views: Mapping[str, dict[str, Any]]
    landable: Mapping[str, dict[str, Any]]
    held: Mapping[str, str]
    questions: Sequence[dict[str, Any]] = ()
    asking: Collection[str] = ()

    def status(self, bead_id: str) -> str:
        view = self.views.get(bead_id)
        return view["status"] if view is not None else "missing"

    def has_landed(self, bead_id: str) -> bool:
        view = self.views.get(bead_id)
        return view is not None and view.get("landed_commit") is not None

    def landed_receipt(self, bead_id: str) -> str | None:
        """The receipt of the work that has landed."""
        return self.views[bead_id].get("receipt_id") if self.has_landed(bead_id) else None

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
        return "blocked" if bead_id in self.asking else "parked"

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
    status = await run.client.call("get_status", waiting=True)
    questions: list[dict[str, Any]] = []
    if any(reason["kind"] in _ASKED for reason in status.get("waiting", [])):
        questions = (await run.client.call("list_questions", only_open=True))["questions"]
    deciding = {row.bead_id for row in run.progress.rows.values() if row.stage == "verifying"}
    return plan_status_of(views, landable, status, questions, run.command_place, deciding)


async def _tasks_by_id(run: RunContext, operation: str) -> dict[str, dict[str, Any]]:
    return {task["bead_id"]: task for task in await run.client.all_of(operation, "tasks")}


def plan_status_of(
    views: Mapping[str, dict[str, Any]],
    landable: Mapping[str, dict[str, Any]],
    status: Mapping[str, Any],
    questions: Sequence[dict[str, Any]],
    place: CommandPlace = HERE,
    deciding: Collection[str] = (),
) -> PlanStatus:
    """`status` is the answer of get_status, `questions` are all that are open. An answer leaves out
    what has no value. `deciding` are tasks whose attempts claim their work: if the server then asks
    a person, the attempt decides whether the task waits for the answer."""
    holds = status.get("holds", [])
    parked = {hold["bead_id"] for hold in holds if hold["kind"] == "answer"}
    waiting = [reason for reason in status.get("waiting", []) if "until" not in reason]
    asking = {
        reason["question_id"]: reason
        for reason in waiting
        if reason["kind"] in (*_ASKED, "scope_request")
        and (
            reason["bead_id"] in parked
            or (
                reason["bead_id"] not in deciding
                and _waits_for_answer(views.get(reason["bead_id"]))
            )
        )
    }
    to_answer = [
        question
        for question in questions
        if (reason := asking.get(question["question_id"])) and reason["kind"] in _ASKED
    ]
    held = _held_tasks(views, waiting, asking, place)
    asking_tasks = frozenset(reason["bead_id"] for reason in asking.values())
    return PlanStatus(views, landable, held, to_answer, asking_tasks)


def _held_tasks(
    views: Mapping[str, dict[str, Any]],
    waiting: Sequence[Mapping[str, Any]],
    asking: Collection[int],
    place: CommandPlace,
) -> dict[str, str]:
    """The tasks that wait for a person, with the server's reason. `asking` are the questions that
    keep their tasks from continuing."""
    held: dict[str, str] = {}
    for kinds in (("pause", "budget"), ("review",), ("scope_request", *_ASKED)):
        for reason in waiting:
            if reason["kind"] not in kinds:
                continue
            text = in_one_line(
                reason["text"], reason["command"], *reason.get("also", []), place=place
            )
            # A question explains more than the hold that it caused, so it comes last.
            if "pause" in kinds:
                held |= dict.fromkeys(_held_back(views, reason["bead_id"]), text)
            elif "review" in kinds or reason.get("question_id") in asking:
                held[reason["bead_id"]] = text
    return held


def _held_back(views: Mapping[str, dict[str, Any]], bead_id: str | None) -> list[str]:
    """The tasks that a hold keeps from being handed out. Without an id: all that are left."""
    return [
        name
        for name, view in views.items()
        if bead_id in (None, name) and view["status"] in ("open", "queued")
    ]


def _is_in_review(view: Mapping[str, Any]) -> bool:
    review = view.get("review")
    return view["status"] == "done" and review is not None and review["state"] == "open"


def _waits_for_answer(view: Mapping[str, Any] | None) -> bool:
    if view is None:
        return False
    if view["status"] == "active":
        return view.get("state") == "blocked"
    return view["status"] == "failed" and str(view["last_error"]).startswith(BLOCKED)
