"""In which order the tasks of a plan are handed out: what most waits for comes first."""

from __future__ import annotations

from shiftboss.protocol.bus import PRIORITY_MAX
from shiftboss.protocol.plan import Plan
from shiftboss.rules.plan_graph import in_order, weight_of

# One step of the plan's own priority weighs more than any path through an ordinary plan.
_STEP = 50


def priorities(plan: Plan) -> dict[str, int]:
    """By the weight of the longest path from each task to the end, and by what the plan says."""
    by_id = {task.id: task for task in plan.tasks}
    longest = {task.id: weight_of(task) for task in plan.tasks}
    for task in reversed(in_order(plan)):
        for before in task.depends_on:
            path = weight_of(by_id[before]) + longest[task.id]
            longest[before] = max(longest[before], path)
    return {
        task_id: max(-PRIORITY_MAX, min(PRIORITY_MAX, length + _STEP * by_id[task_id].priority))
        for task_id, length in longest.items()
    }
