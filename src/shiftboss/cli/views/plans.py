"""Plans for people: the graph in its phases, and what a run would do. Imported late: it needs rich.

Nothing is said by colour alone: a star marks the critical path.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from rich.table import Column, Table
from rich.text import Text

from shiftboss.cli.common.output import plain
from shiftboss.cli.views.handoffs import add_fact, facts_grid
from shiftboss.cli.views.swarms import cell, plain_table
from shiftboss.rules.plans.graph import agent_name, critical_path, phases, repo_of

if TYPE_CHECKING:
    from rich.console import RenderableType

    from shiftboss.protocol.plan import Plan
    from shiftboss.rules.plans.graph import TaskOverlap
    from shiftboss.rules.plans.schedule import DryRun, ScheduleStep

OVERLAPS_SHOWN_MAX: Final = 20
_ID_CELLS: Final = 28
_STAR: Final = "*"


def plan_view(plan: Plan, overlapping: list[TaskOverlap]) -> list[RenderableType]:
    critical = critical_path(plan)
    return [
        _plan_facts(plan),
        Text(),
        _graph(plan, set(critical)),
        Text(),
        _critical_line(critical),
        *_overlap_lines(overlapping),
    ]


def _plan_facts(plan: Plan) -> Table:
    lines = facts_grid()
    add_fact(lines, "goal", plan.goal, "bold")
    add_fact(lines, "swarm", plan.swarm)
    for number, (name, repo) in enumerate(plan.repos.items()):
        branch = f", branch {repo.branch}" if repo.branch else ""
        add_fact(lines, "repos" if number == 0 else "", f"{name}: {repo.path}{branch}")
    landing = "landed at once" if plan.auto_merge else "landed by `shiftboss land`"
    add_fact(lines, "workers", f"{plan.workers}; accepted work is {landing}")
    return lines


def _graph(plan: Plan, critical: set[str]) -> Table:
    """A row for each task, below those that it waits for."""
    several_repos, agents = len(plan.repos) > 1, {agent_name(plan, task) for task in plan.tasks}
    table = plain_table(
        Column("PHASE", no_wrap=True),
        Column("TASK", no_wrap=True, max_width=_ID_CELLS),
        *([Column("REPO", no_wrap=True, max_width=16)] if several_repos else []),
        *([Column("AGENT", no_wrap=True)] if len(agents) > 1 else []),
        Column("SIZE", no_wrap=True),
        "AFTER",
        "TITLE",
        gap=1,
    )
    tasks = {task.id: task for task in plan.tasks}
    for number, names in enumerate(phases(plan), start=1):
        for place, name in enumerate(names):
            task = tasks[name]
            table.add_row(
                cell(number if place == 0 else ""),
                _task_cell(name, critical),
                *([cell(repo_of(plan, task))] if several_repos else []),
                *([cell(agent_name(plan, task))] if len(agents) > 1 else []),
                cell(task.complexity),
                Text(plain(", ".join(task.depends_on))),
                Text(plain(task.title)),
            )
    return table


def dry_run_tables(found: DryRun) -> list[RenderableType]:
    facts = facts_grid()
    add_fact(facts, "goal", found.goal, "bold")
    add_fact(facts, "swarm", found.swarm)
    add_fact(facts, "workers", found.workers)
    add_fact(
        facts,
        "length",
        f"{found.length}, of which the critical path needs {found.critical_length} "
        "(a task counts 1, 2 or 4: low, normal, high)",
    )
    return [
        facts,
        Text(),
        _timetable(found),
        Text(),
        _critical_line(found.critical_path),
        *(_wrapped(f"never at once: {one} and {other}") for one, other in found.locked),
        *_overlap_lines(found.overlaps),
    ]


def _timetable(found: DryRun) -> Table:
    several_repos = len({step.repo for step in found.steps}) > 1
    table = plain_table(
        *(Column(name, no_wrap=True, justify="right") for name in ("FROM", "TO", "WORKER")),
        Column("TASK", no_wrap=True, max_width=_ID_CELLS),
        *([Column("REPO", no_wrap=True, max_width=16)] if several_repos else []),
        "WAITS FOR",
        gap=1,
    )
    for step in found.steps:
        table.add_row(
            *(cell(number) for number in (step.starts, step.ends, step.worker)),
            _task_cell(step.task, set(found.critical_path)),
            *([cell(step.repo)] if several_repos else []),
            Text(plain(_waits(step))),
        )
    return table


def _waits(step: ScheduleStep) -> str:
    """The tasks by their names, everything else in words."""
    tasks = [wait.task or "" for wait in step.waits if wait.kind == "task"]
    return "; ".join([*filter(None, [", ".join(tasks)]), *_other_waits(step)])


def _other_waits(step: ScheduleStep) -> list[str]:
    return [wait.why for wait in step.waits if wait.kind != "task"]


def _task_cell(name: str, critical: Iterable[str]) -> Text:
    return cell(f"{name} {_STAR}", "bold") if name in critical else cell(name)


def _critical_line(path: list[str]) -> Text:
    return _wrapped(f"{_STAR} critical path: {' -> '.join(path)}")


def _overlap_lines(overlapping: list[TaskOverlap]) -> list[Text]:
    """Those that wait for each other anyway are nobody's trouble."""
    told = [one for one in overlapping if not one.is_ordered]
    lines = [
        _wrapped(
            f"one after the other: {one.left} and {one.right} both own {one.example} "
            f"({one.left_pattern}, {one.right_pattern})",
            "yellow",
        )
        for one in told[:OVERLAPS_SHOWN_MAX]
    ]
    if len(told) > OVERLAPS_SHOWN_MAX:
        lines.append(_wrapped(f"and {len(told) - OVERLAPS_SHOWN_MAX} more such pairs; see --json"))
    return lines


def _wrapped(text: str, style: str = "") -> Text:
    return Text(plain(text), style=style)
