"""shiftboss redteam: tries known hacks on the contracts of a plan, before an agent does."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from shiftboss.cli.common.client import parse_answer
from shiftboss.cli.common.command import Output, ServerSession, server_command
from shiftboss.cli.common.options import TaskSwarm
from shiftboss.cli.common.output import show
from shiftboss.errors import InvalidRequest, ShiftbossError
from shiftboss.rules.documents.wording import did_you_mean, pluralize

if TYPE_CHECKING:
    from shiftboss.orchestrator.run.plan_file import PlanFile as ReadPlanFile
    from shiftboss.protocol.plan import PlanTask
    from shiftboss.redteam.advice import Advice
    from shiftboss.redteam.contracts import TaskContract
    from shiftboss.redteam.hacks import Hack
    from shiftboss.redteam.replay import Trial
    from shiftboss.rules.documents.yaml_lines import KeyPath

Report = Callable[["Trial"], None]


class HacksAccepted(ShiftbossError):
    code = "hacks_accepted"
    title = "Work that was not done would be accepted"


class Stopped(ShiftbossError):
    code = "stopped"
    title = "The command was stopped"


@server_command()
def redteam(
    session: ServerSession,
    target: Annotated[
        str,
        typer.Argument(metavar="PLAN|TASK", help="A plan, or a task that has a contract."),
    ],
    task: Annotated[
        str | None, typer.Argument(metavar="TASK", help="Only this task of the plan.")
    ] = None,
    class_: Annotated[
        list[str] | None,
        typer.Option("--class", metavar="NAME", help="Only the hacks of this class. Repeatable."),
    ] = None,
    hack: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this hack. Repeatable.")
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="List every hack, not only the classes.")
    ] = False,
    listed: Annotated[
        bool, typer.Option("--list", help="List the hacks, and try none of them.")
    ] = False,
    swarm: TaskSwarm = None,
) -> Output:
    """Try known hacks on the contracts of a plan, and say which of them would be accepted.

    Each hack is a commit within the files of the task. It is made in a scratch copy and verified
    like a claim; nothing is written to the repository. Exits with 1 if a hack was accepted.

    \b
    Examples:
      shiftboss redteam plan.yaml                        all tasks, all hacks
      shiftboss redteam plan.yaml login-form             one task
      shiftboss redteam bd-7                             a task of this server
      shiftboss redteam plan.yaml --class early-exit     one class of hacks
      shiftboss redteam plan.yaml --list                 what the hacks do
    """
    hacks = _chosen(class_ or [], hack or [])
    if listed:
        return _list(hacks)
    if task is None and _is_task(target):
        swarm_id = session.swarm_of(target, swarm)
        view_of_task = parse_answer(
            session.call("show_handoff", swarm_id, bead_id=target), "handoff"
        )
        answer = _of_task(target, view_of_task, hacks)
    else:
        answer = _of_plan(Path(target), task, hacks)
    accepted = answer["accepted"]
    error = HacksAccepted(f"{pluralize(accepted, 'hack')} would be accepted") if accepted else None
    is_detailed = every or bool(class_ or hack)

    def view() -> None:
        from shiftboss.cli.views.redteam import redteam_view

        show(*redteam_view(answer, is_detailed=is_detailed))

    return Output.of(answer, view, error)


def _is_task(target: str) -> bool:
    """A name that is no file and does not look like one."""
    looks_like_file = "/" in target or target.endswith((".yaml", ".yml"))
    return not looks_like_file and not Path(target).exists()


def _of_plan(file: Path, task: str | None, hacks: list[Hack]) -> dict[str, Any]:
    from shiftboss.orchestrator.run.plan_file import read_plan_file
    from shiftboss.redteam.contracts import task_of

    loaded = read_plan_file(file)
    tasks = loaded.plan.tasks if task is None else [task_of(loaded.plan, task)]
    results = _until_stopped(
        len(tasks) * len(hacks), lambda report: _replay_plan(loaded, tasks, hacks, report)
    )
    named = [
        _task_answer(result, partial(_line_of_plan, loaded, each))
        for each, result in zip(tasks, results, strict=True)
    ]
    return _answer(str(loaded.path), named)


def _of_task(task_id: str, view: dict[str, Any], hacks: list[Hack]) -> dict[str, Any]:
    (result,) = _until_stopped(len(hacks), lambda report: _replay_task(view, hacks, report))
    return _answer(None, [_task_answer(result, partial(_line_of_task, task_id))])


def _chosen(classes: list[str], names: list[str]) -> list[Hack]:
    from shiftboss.redteam.corpus import CLASSES, HACKS

    _check_names(classes, CLASSES, "class")
    _check_names(names, [hack.name for hack in HACKS], "hack")
    if not classes and not names:
        return list(HACKS)
    return [hack for hack in HACKS if hack.class_ in classes or hack.name in names]


def _check_names(given: list[str], known: tuple[str, ...] | list[str], what: str) -> None:
    for name in given:
        if name not in known:
            raise InvalidRequest(
                f"there is no {what} {name!r}{did_you_mean(name, known)}",
                field=what,
                hint="`shiftboss redteam plan.yaml --list` lists all of them",
            )


def _list(hacks: list[Hack]) -> Output:
    answer = {
        "hacks": [
            {
                "name": hack.name,
                "class": hack.class_,
                "title": hack.title,
                "language": hack.language,
                "refused_by": hack.defence,
            }
            for hack in hacks
        ]
    }

    def view() -> None:
        from shiftboss.cli.views.redteam import hack_list

        show(hack_list(hacks))

    return Output.of(answer, view)


class _TaskResult(NamedTuple):
    contract: TaskContract
    trials: list[Trial]


def _until_stopped(
    total: int, replay: Callable[[Report], Coroutine[Any, Any, list[_TaskResult]]]
) -> list[_TaskResult]:
    from shiftboss.cli.common.until_signal import until_signal

    with _progress_bar(total) as report:
        results = until_signal(replay(report))
    if results is None:
        raise Stopped("stopped; the scratch copy was removed")
    return results


async def _replay_plan(
    loaded: ReadPlanFile, tasks: list[PlanTask], hacks: list[Hack], report: Report
) -> list[_TaskResult]:
    from shiftboss.orchestrator.run.held_out_files import read_held_out
    from shiftboss.redteam.contracts import read_contract

    held_out = await asyncio.to_thread(read_held_out, loaded.plan)
    results = []
    for task in tasks:
        contract = await read_contract(loaded.plan, task, held_out.get(task.id))
        results.append(await _replay(contract, hacks, report))
    return results


async def _replay_task(
    view: dict[str, Any], hacks: list[Hack], report: Report
) -> list[_TaskResult]:
    from shiftboss.redteam.contracts import agreed_contract

    return [await _replay(await agreed_contract(view), hacks, report)]


async def _replay(contract: TaskContract, hacks: list[Hack], report: Report) -> _TaskResult:
    from shiftboss.redteam.replay import open_replay

    async with open_replay(contract) as replay:
        return _TaskResult(contract, await replay.try_all(hacks, report))


@contextmanager
def _progress_bar(total: int) -> Iterator[Report]:
    """On a terminal, where a person waits for it."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    # rich is imported late: it takes 50 ms.
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("trying hacks", total=total)
        yield lambda _: progress.advance(bar)


def _answer(file: str | None, tasks: list[dict[str, Any]]) -> dict[str, Any]:
    outcomes = [hack["outcome"] for task in tasks for hack in task["hacks"]]
    return {
        "file": file,
        **{name: outcomes.count(name) for name in ("accepted", "refused", "not_applicable")},
        "tasks": tasks,
    }


def _task_answer(result: _TaskResult, line: Callable[[Advice], str]) -> dict[str, Any]:
    from shiftboss.redteam.advice import advise

    return {
        "bead_id": result.contract.contract.task_id,
        "base_commit": result.contract.base,
        "hacks": [_hack_answer(trial) for trial in result.trials],
        "advice": [
            {"change": line(advice), "hacks": names}
            for advice, names in advise(result.trials, result.contract).items()
        ],
    }


def _hack_answer(trial: Trial) -> dict[str, Any]:
    return {
        "name": trial.hack.name,
        "class": trial.hack.class_,
        "title": trial.hack.title,
        "outcome": trial.outcome,
        "refused_by": trial.check,
        "reason": trial.message,
    }


def _line_of_plan(loaded: ReadPlanFile, task: PlanTask, advice: Advice) -> str:
    """`plan.yaml:12: tasks.0.files_owned: what to change`."""
    from shiftboss.rules.documents.typed_files import problem_lines
    from shiftboss.rules.plans.graph import repo_of

    key: KeyPath
    if advice.key[0] == "verification":
        key = ("repos", repo_of(loaded.plan, task), *advice.key)
    else:
        key = ("tasks", loaded.plan.tasks.index(task), *advice.key)
    return problem_lines(str(loaded.path), [loaded.document.problem(key, advice.text)])[0]


def _line_of_task(task_id: str, advice: Advice) -> str:
    return f"{task_id}: {'.'.join(advice.key)}: {advice.text}"
