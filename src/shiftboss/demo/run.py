"""Runs the demo: repositories, server, plan, checks, summary."""

from __future__ import annotations

import asyncio
import shlex
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from shiftboss.cli.common.client import Client
from shiftboss.cli.common.output import console
from shiftboss.cli.common.until_signal import until_signal
from shiftboss.cli.views.runs import RunView, outcome_lines
from shiftboss.client.server_address import Server
from shiftboss.demo.checks import DemoRecord, Fact, facts, read_record
from shiftboss.demo.plan import REPO_DEPENDENCIES, REPO_OF, SWARM, TASKS, WORKERS, write_plan
from shiftboss.demo.repos import create_repos, isolate_process
from shiftboss.demo.server import DemoServer
from shiftboss.orchestrator.guardian.agent_process import end_run_processes, run_mark
from shiftboss.orchestrator.run.bootstrap import RunOptions, run_plan
from shiftboss.orchestrator.run.plan_file import load_plan
from shiftboss.orchestrator.run.plan_run import RunOutcome
from shiftboss.orchestrator.run.progress import Progress
from shiftboss.orchestrator.run.run_context import RunPaths
from shiftboss.rules.tasks.waiting import CommandPlace

INTERRUPTED: Final = 130


class DemoPaths:
    """The files and folders of the demo, all in one temporary folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.repos = folder / "repos"
        self.trees = folder / "trees"
        self.receipts = folder / "receipts"
        self.state = folder / "state"
        self.database = self.state / "shiftboss.db"
        self.policy = folder / "shiftboss.yaml"
        self.plan = folder / "plan.yaml"

    @property
    def run(self) -> Path:
        return RunPaths.of(self.state, SWARM, self.trees).folder


def run_demo(*, keep: bool) -> int:
    """Returns the exit code: 0 if everything happened as it should."""
    paths = DemoPaths(Path(tempfile.mkdtemp(prefix="shiftboss-demo-")))
    isolate_process(paths.folder)
    create_repos(paths.repos)
    write_plan(paths.folder)
    screen = console()
    with DemoServer(paths.database, paths.policy) as server:
        _print_lines(screen, *first_lines(paths, server.address, is_terminal=screen.is_terminal))
        outcome = _run_plan(paths, server)
        if outcome is None:
            return INTERRUPTED
        left_behind = asyncio.run(end_run_processes(run_mark(paths.state, SWARM)))
        record = read_record(Client(server.address), paths.receipts)
        checked_facts = facts(record, paths.repos, paths.run, left_behind)
        _print_summary(screen, outcome, record, checked_facts)
        _print_paths(screen, paths)
        if keep:
            wait_for_interrupt(screen, server)
    return 0 if outcome.done and all(fact.holds for fact in checked_facts) else 1


def first_lines(paths: DemoPaths, address: str, *, is_terminal: bool) -> list[str]:
    """On a terminal, the run prints a link to the page that logs in; one is enough."""
    lines = [
        f"{len(TASKS)} tasks in {len(REPO_DEPENDENCIES)} repos for {WORKERS} workers",
        "the agents are scripts and use no model",
        f"plan: {paths.plan}",
        f"server: {address}",
    ]
    return lines if is_terminal else [*lines, f"page: {address}/#/s/{SWARM}/board"]


def _run_plan(paths: DemoPaths, server: DemoServer) -> RunOutcome | None:
    """Run the plan as `shiftboss run` does. None if a signal stopped it."""
    options = RunOptions(
        plan=load_plan(paths.plan),
        server=Server.at(server.address, None),
        database=str(paths.database),
        policy=paths.policy,
        trees=paths.trees,
        commands_look=_here(paths.database),
    )
    progress = Progress()
    with RunView(progress):
        return until_signal(run_plan(options, progress))


def _print_summary(
    screen: Console, outcome: RunOutcome, record: DemoRecord, checked_facts: list[Fact]
) -> None:
    if not outcome.done:
        for part in outcome_lines(outcome):
            screen.print(part, soft_wrap=True)
    screen.print()
    screen.print(_receipts_table(record))
    screen.print()
    if screen.is_terminal:
        screen.print(_facts_table(checked_facts))
        return
    _print_lines(screen, *(f"{_result(fact)}  {fact.text}" for fact in checked_facts))


def _receipts_table(record: DemoRecord) -> RenderableType:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("TASK", "REPO", "COMMIT", "ATTEMPT", "CI", "RECEIPT", "CHECKED"):
        table.add_column(name, no_wrap=True)
    for task_id, receipt in record.receipts.items():
        body = receipt.body
        table.add_row(
            task_id,
            REPO_OF[task_id],
            body.commit[:10] if body else "",
            str(body.epoch) if body else "",
            "green" if receipt.is_green else "-",
            body.receipt_id if body else "",
            "genuine" if body else receipt.problem,
        )
    return table


def _facts_table(checked_facts: list[Fact]) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    for fact in checked_facts:
        table.add_row(Text(_result(fact), "green" if fact.holds else "bold red"), Text(fact.text))
    return table


def _result(fact: Fact) -> str:
    return "ok" if fact.holds else "FAILED"


def _print_paths(screen: Console, paths: DemoPaths) -> None:
    here = _here(paths.database)
    serve = ["shiftboss", "serve", "--db", str(paths.database), "--policy", str(paths.policy)]
    _print_lines(
        screen,
        "",
        f"plan       {paths.plan}, with its policy beside it",
        f"repos      {paths.repos}",
        f"logs       {paths.run}",
        f"receipts   {paths.receipts}",
        f"to look    {here.render(f'shiftboss open {SWARM}')}",
        f"to explore {shlex.join(serve)}",
        f"to replay  {here.render(f'shiftboss replay {SWARM}')}",
    )


def _here(database: Path) -> CommandPlace:
    """With the database, commands also find the operator's token."""
    return CommandPlace(database=str(database))


def _print_lines(screen: Console, *lines: str) -> None:
    # soft_wrap: paths and commands are copied, so they must not be broken.
    for line in lines:
        screen.print(line, soft_wrap=True)


def wait_for_interrupt(screen: Console, server: DemoServer) -> None:
    """A signal stops the server from the moment on at which the line can be read."""
    address = f"{server.address}/swarm/{SWARM}/status"
    _on_interrupt(lambda *_: server.stop())
    page = _here(server.database).render(f"shiftboss open {SWARM}")
    screen.print(f"\nthe page: {page}", soft_wrap=True)
    screen.print(f"the server is running at {address}; press Ctrl-C to stop it", soft_wrap=True)
    server.wait()
    # Nothing is left to interrupt: a second Ctrl-C does not change how the demo ended.
    _on_interrupt(signal.SIG_IGN)
    screen.print()


def _on_interrupt(handler: Callable[..., object] | signal.Handlers) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handler)
