"""What the server says of a run, read anew each time that something has happened."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from shiftboss.orchestrator.run.run_context import RunContext

# How the last words of an attempt begin that waits for people: it may not use its tools, or it has
# asked something. What they answer is told to the next attempt.
BLOCKED: Final = "BLOCKED"


class PlanStatus(NamedTuple):
    """`views` are all tasks of the swarm; `landable` are those that are accepted and have not
    landed, in the order of their acceptance. `held` are those that wait for people, with the
    reason: a question, a budget that is used up, a pause without an end."""

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
        """One that has failed and will be tried again counts as queued."""
        return {
            bead_id: "queued"
            if view["status"] == "failed" and view["failures"] < attempts
            else view["status"]
            for bead_id, view in self.views.items()
        }

    @property
    def snapshot(self) -> dict[str, tuple[str, int]]:
        """What changes when something happens: status and failures of every task."""
        return {one: (view["status"], view["failures"]) for one, view in self.views.items()}

    @property
    def is_busy(self) -> bool:
        """Whether somebody works, or will without anybody's doing."""
        return any(
            view["status"] in ("active", "queued") and bead_id not in self.held
            for bead_id, view in self.views.items()
        )


async def read_plan_status(run: RunContext) -> PlanStatus:
    views = await _all(run, "list_tasks")
    return PlanStatus(views, await _all(run, "list_landable"), await _held(run, views))


async def _all(run: RunContext, operation: str) -> dict[str, dict[str, Any]]:
    return {one["bead_id"]: one for one in await run.client.all_of(operation, "tasks")}


async def _held(run: RunContext, views: Mapping[str, dict[str, Any]]) -> dict[str, str]:
    asked = await run.client.call("list_questions", only_open=True)
    found = {
        one["bead_id"]: question_words(one, run.client.swarm_id)
        for one in asked["questions"]
        if one["bead_id"] in views and _waits_for_answer(views[one["bead_id"]])
    }
    for hold in (await run.client.call("get_status")).get("holds") or []:
        if hold["until"] is None:
            names = [hold["bead_id"]] if hold["bead_id"] is not None else list(views)
            found |= {
                name: hold["reason"]
                for name in names
                if views[name]["status"] in ("open", "queued", "failed")
            }
    return found


def _waits_for_answer(view: Mapping[str, Any]) -> bool:
    if view["status"] == "active":
        return view.get("state") == "blocked"
    return view["status"] == "failed" and str(view["last_error"]).startswith(BLOCKED)


def question_words(question: Mapping[str, Any], swarm_id: str) -> str:
    """The first line, and how to answer."""
    first = str(question["question"]).partition("\n")[0]
    number = question["question_id"]
    return (
        f"question {number}: {first} "
        f"(answer it: shiftboss questions answer {number} TEXT --swarm {swarm_id})"
    )
