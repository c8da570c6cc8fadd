"""Which agent does a task of a plan. A kind of agent may be named without settings of its own."""

from __future__ import annotations

from typing import Final

from shiftboss.protocol.plan import Plan, PlanAgent, PlanTask

# The kind that is nothing without its command line.
COMMAND: Final = "command"


def agent_name(plan: Plan, task: PlanTask) -> str:
    return task.agent or plan.agent


def agent_of(plan: Plan, task: PlanTask) -> PlanAgent:
    name = agent_name(plan, task)
    return plan.agents.get(name) or PlanAgent(kind=name)
