"""Plans: the task graph by phases, and the schedule of a dry run.

No information is in the colour alone: a star marks the critical path.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from rich.table import Column, Table
from rich.text import Text

from shiftboss.cli.common.output import printable
from shiftboss.cli.common.tables import add_fact, cell, column_of, facts_grid, plain_table
from shiftboss.rules.plans.graph import agent_name, critical_path, phases, repo_of, review_of

if TYPE_CHECKING:
    from rich.console import RenderableType

    from shiftboss.protocol.plan import Plan, PlanTask
    from shiftboss.rules.plans.graph import TaskOverlap
    from shiftboss.rules.plans.schedule import DryRun, ScheduleStep

OVERLAPS_SHOWN_MAX: Final = 20
_ID_CELLS: Final = 28
_REPO_CELLS: Final = 16
_STAR: Final = "*"
DEFAULT_MODEL: Final = "the agent's default"
# The model of each task; None where none was chosen.
Models = Mapping[str, str | None]


def plan_view(plan: Plan, models: Models, overlaps: list[TaskOverlap]) -> list[RenderableType]:
    critical = critical_path(plan)
    return [
        _plan_facts(plan, models),
        Text(),
        _graph(plan, models, set(critical)),
        Text(),
        _critical_line(critical),
        *_overlap_lines(overlaps),
    ]


def _plan_facts(plan: Plan, models: Models) -> Table:
    lines = facts_grid()
    add_fact(lines, "goal", plan.goal, "bold")
    add_fact(lines, "swarm", plan.swarm)
    for number, (name, repo) in enumerate(plan.repos.items()):
        branch = f", branch {repo.branch}" if repo.branch else ""
        add_fact(lines, "repos" if number == 0 else "", f"{name}: {repo.path}{branch}")
    add_fact(lines, "workers", plan.workers)
    add_fact(lines, "landing", landing_text(plan))
    _add_model(lines, models)
    return lines


def landing_text(plan: Plan) -> str:
    """How accepted work reaches its target, and what it waits for."""
    reviewed = sum(review_of(plan, task) == "required" for task in plan.tasks)
    when = "accepted work lands at once"
    if not plan.auto_merge:
        when = "accepted work waits for `shiftboss land`"
    if reviewed == len(plan.tasks):
        when += " after your review"
    elif reviewed:
        when += f"; {reviewed} of {len(plan.tasks)} tasks only after your review"
    landings = {name: repo.landing or plan.landing for name, repo in plan.repos.items()}
    modes: list[str] = [*dict.fromkeys(landings.values())]
    if len(modes) > 1:
        modes = [f"{name}: {mode}" for name, mode in landings.items()]
    return f"{', '.join(modes)}; {when}"


def _add_model(lines: Table, models: Models) -> None:
    """The model of all tasks. If they have several, the table has a column for them."""
    if len(set(models.values())) == 1:
        add_fact(lines, "model", next(iter(models.values())) or DEFAULT_MODEL)


def _graph(plan: Plan, models: Models, critical: set[str]) -> Table:
    """A row for each task, below the tasks it depends on."""
    several_models = len(set(models.values())) > 1
    with_review = any(review_of(plan, task) == "required" for task in plan.tasks)
    several_repos, agents = len(plan.repos) > 1, {agent_name(plan, task) for task in plan.tasks}
    table = plain_table(
        Column("PHASE", no_wrap=True),
        column_of(_ID_CELLS, "TASK"),
        *([column_of(_REPO_CELLS, "REPO")] if several_repos else []),
        *([Column("AGENT", no_wrap=True)] if len(agents) > 1 else []),
        *([Column("MODEL", no_wrap=True)] if several_models else []),
        Column("SIZE", no_wrap=True),
        *([Column("REVIEW", no_wrap=True)] if with_review else []),
        "AFTER",
        "TITLE",
        gap=1,
    )
    tasks = {task.id: task for task in plan.tasks}
    for number, names in enumerate(phases(plan), start=1):
        for index, name in enumerate(names):
            task = tasks[name]
            table.add_row(
                cell(number if index == 0 else ""),
                _task_cell(name, critical),
                *([cell(repo_of(plan, task))] if several_repos else []),
                *([cell(agent_name(plan, task))] if len(agents) > 1 else []),
                *([cell(models[name] or DEFAULT_MODEL)] if several_models else []),
                cell(task.complexity),
                *([cell(_review_cell(plan, task))] if with_review else []),
                Text(printable(", ".join(task.depends_on))),
                Text(printable(task.title)),
            )
    return table


def _review_cell(plan: Plan, task: PlanTask) -> str:
    return "yes" if review_of(plan, task) == "required" else ""


def dry_run_tables(schedule: DryRun) -> list[RenderableType]:
    facts = facts_grid()
    add_fact(facts, "goal", schedule.goal, "bold")
    add_fact(facts, "swarm", schedule.swarm)
    add_fact(facts, "workers", schedule.workers)
    _add_model(facts, schedule.models)
    add_fact(
        facts,
        "length",
        f"{schedule.length}; the critical path alone takes {schedule.critical_length} "
        "(a task takes 1, 2 or 4: low, normal or high complexity)",
    )
    return [
        facts,
        Text(),
        _timetable(schedule),
        Text(),
        _critical_line(schedule.critical_path),
        *(
            _wrapped(f"never at the same time: {left} and {right}")
            for left, right in schedule.locked
        ),
        *_overlap_lines(schedule.overlaps),
    ]


def _timetable(schedule: DryRun) -> Table:
    several_repos = len({step.repo for step in schedule.steps}) > 1
    several_models = len(set(schedule.models.values())) > 1
    table = plain_table(
        *(Column(name, no_wrap=True, justify="right") for name in ("FROM", "TO", "WORKER")),
        column_of(_ID_CELLS, "TASK"),
        *([column_of(_REPO_CELLS, "REPO")] if several_repos else []),
        *([Column("MODEL", no_wrap=True)] if several_models else []),
        "WAITS FOR",
        gap=1,
    )
    for step in schedule.steps:
        table.add_row(
            *(cell(number) for number in (step.starts, step.ends, step.worker)),
            _task_cell(step.task, set(schedule.critical_path)),
            *([cell(step.repo)] if several_repos else []),
            *([cell(schedule.models[step.task] or DEFAULT_MODEL)] if several_models else []),
            Text(printable(_waits_for(step))),
        )
    return table


def _waits_for(step: ScheduleStep) -> str:
    """The tasks by their names, then the other reasons."""
    tasks = ", ".join(wait.task or "" for wait in step.waits if wait.kind == "task")
    reasons = [wait.why for wait in step.waits if wait.kind != "task"]
    return "; ".join([*filter(None, [tasks]), *reasons])


def _task_cell(name: str, critical: Iterable[str]) -> Text:
    return cell(f"{name} {_STAR}", "bold") if name in critical else cell(name)


def _critical_line(path: list[str]) -> Text:
    return _wrapped(f"{_STAR} critical path: {' -> '.join(path)}")


def _overlap_lines(overlaps: list[TaskOverlap]) -> list[Text]:
    """Without the tasks that depend on each other: these run one after the other anyway."""
    unordered = [overlap for overlap in overlaps if not overlap.is_ordered]
    lines = [
        _wrapped(
            f"one after the other: {overlap.left} and {overlap.right} both own {overlap.example} "
            f"({overlap.left_pattern}, {overlap.right_pattern})",
            "yellow",
        )
        for overlap in unordered[:OVERLAPS_SHOWN_MAX]
    ]
    if len(unordered) > OVERLAPS_SHOWN_MAX:
        more = len(unordered) - OVERLAPS_SHOWN_MAX
        lines.append(_wrapped(f"and {more} more such pairs; see --json"))
    return lines


def _wrapped(text: str, style: str = "") -> Text:
    return Text(printable(text), style=style)
