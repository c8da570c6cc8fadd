"""Running the demo from its first process to its last."""

from __future__ import annotations

import asyncio
import shlex
import tempfile
from pathlib import Path
from typing import Final

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from shiftboss.cli.common.client import Client
from shiftboss.cli.common.options import DEFAULT_SERVER
from shiftboss.cli.common.output import console
from shiftboss.cli.common.until_signal import until_signal
from shiftboss.cli.views.runs import RunView, outcome_lines
from shiftboss.client.server_address import Server
from shiftboss.demo.checks import DemoRecord, Fact, facts, read_record
from shiftboss.demo.plan import BUILT_ON, REPO_OF, SWARM, TASKS, WORKERS, write_plan
from shiftboss.demo.repos import make_repos, stay_apart
from shiftboss.demo.server import DemoServer
from shiftboss.orchestrator.guardian.agent_process import run_mark, sweep_marked
from shiftboss.orchestrator.run.bootstrap import RunOptions, run_wish
from shiftboss.orchestrator.run.plan_file import load_plan
from shiftboss.orchestrator.run.plan_run import RunOutcome
from shiftboss.orchestrator.run.progress import Progress
from shiftboss.orchestrator.run.run_context import RunPaths

INTERRUPTED: Final = 130


class Stage:
    """The folder that the demo takes place in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.repos = folder / "repos"
        self.trees = folder / "trees"
        self.receipts = folder / "receipts"
        self.state = folder / "state"
        self.database = self.state / "shiftboss.db"
        self.policy = folder / "shiftboss.yaml"
        self.plan = folder / "plan.yaml"


def run_demo(*, keep: bool) -> int:
    """The exit code: 0 when all that should happen did."""
    stage = Stage(Path(tempfile.mkdtemp(prefix="shiftboss-demo-")))
    stay_apart(stage.folder)
    make_repos(stage.repos)
    write_plan(stage.folder)
    screen = console()
    with DemoServer(stage.database, stage.policy) as server:
        _print_lines(
            screen,
            f"{len(TASKS)} tasks in {len(BUILT_ON)} repos, {WORKERS} workers; their agents are "
            "scripts, no model is asked",
            f"the plan is {stage.plan}",
            f"the server is at {server.address}",
        )
        outcome = _run_plan(stage, server)
        if outcome is None:
            return INTERRUPTED
        left = asyncio.run(sweep_marked(run_mark(stage.state, SWARM)))
        record = read_record(Client(server.address), stage.receipts)
        found = facts(
            record, stage.repos, RunPaths.of(stage.state, SWARM, stage.trees).folder, left
        )
        _print_summary(screen, outcome, record, found)
        _print_places(screen, stage)
        if keep:
            _keep(screen, server)
    return 0 if outcome.done and all(fact.holds for fact in found) else 1


def _run_plan(stage: Stage, server: DemoServer) -> RunOutcome | None:
    """As `shiftboss run` does it. None: a signal came first, and everything was given back."""
    options = RunOptions(
        plan=load_plan(stage.plan),
        server=Server.at(server.address, None),
        database=str(stage.database),
        policy=stage.policy,
        trees=stage.trees,
    )
    progress = Progress()
    with RunView(progress):
        return until_signal(run_wish(options, progress))


def _print_summary(
    screen: Console, outcome: RunOutcome, record: DemoRecord, found: list[Fact]
) -> None:
    if not outcome.done:
        for part in outcome_lines(outcome):
            screen.print(part, soft_wrap=True)
    screen.print()
    screen.print(_receipts_table(record))
    screen.print()
    if screen.is_terminal:
        screen.print(_facts_table(found))
        return
    _print_lines(screen, *(f"{_mark(fact)}  {fact.text}" for fact in found))


def _receipts_table(record: DemoRecord) -> RenderableType:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("TASK", "REPO", "COMMIT", "TRY", "CI", "RECEIPT", "CHECKED"):
        table.add_column(name, no_wrap=True)
    for task_id, paper in record.papers.items():
        body = paper.body
        table.add_row(
            task_id,
            REPO_OF[task_id],
            body.commit[:10] if body else "",
            str(body.epoch) if body else "",
            "green" if paper.is_green else "-",
            body.receipt_id if body else "",
            "genuine" if body else paper.flaw,
        )
    return table


def _facts_table(found: list[Fact]) -> Table:
    lines = Table.grid(padding=(0, 2, 0, 0))
    for fact in found:
        lines.add_row(Text(_mark(fact), "green" if fact.holds else "bold red"), Text(fact.text))
    return lines


def _mark(fact: Fact) -> str:
    return "ok" if fact.holds else "FAILED"


def _print_places(screen: Console, stage: Stage) -> None:
    again = ["shiftboss", "serve", "--db", str(stage.database), "--policy", str(stage.policy)]
    _print_lines(
        screen,
        "",
        f"plan       {stage.plan}, with its policy beside it",
        f"repos      {stage.repos}",
        f"logs       {stage.state / 'runs' / SWARM}",
        f"receipts   {stage.receipts}",
        f"look again {shlex.join(again)}",
        f"           then: shiftboss events {SWARM}, or {DEFAULT_SERVER}/swarm/{SWARM}/status",
    )


def _print_lines(screen: Console, *lines: str) -> None:
    # Paths and commands are there to be copied: no line breaks in them.
    for line in lines:
        screen.print(line, soft_wrap=True)


def _keep(screen: Console, server: DemoServer) -> None:
    address = f"{server.address}/swarm/{SWARM}/status"
    screen.print(f"\nthe server is at {address}; Ctrl-C stops it", soft_wrap=True)
    try:
        server.wait()
    except KeyboardInterrupt:
        screen.print()
