"""Looking at a run from outside: logs, diff, attach and clean, while it lasts and afterwards."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shiftboss.orchestrator.run.run_files import read_run_facts
from shiftboss.orchestrator.run.run_lock import process_of_run
from tests.commands import Done, running, shiftboss
from tests.plan_runs import PlanProject, task
from tests.running import RunningServer
from tests.waiting import wait_until


@pytest.fixture
def project(tmp_path: Path) -> PlanProject:
    return PlanProject(tmp_path)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    running_server = RunningServer(tmp_path / "server" / "shiftboss.db").start()
    yield running_server
    running_server.close()


@pytest.fixture
def operator(project: PlanProject, server: RunningServer) -> Iterator[Operator]:
    """No run goes on in the background when the test is over."""
    yield Operator(project, server.url)
    for folder in (project.folder / ".shiftboss" / "runs").glob("*"):
        process = process_of_run(folder)
        if process is not None:
            os.kill(process.pid, signal.SIGKILL)


class Operator:
    """A person in the folder of the project."""

    def __init__(self, project: PlanProject, url: str) -> None:
        self.project = project
        self.url = url

    def __call__(self, *arguments: str, **variables: str) -> Done:
        home = {"HOME": str(self.project.folder / "home")}
        return shiftboss(*arguments, url=self.url, folder=self.project.folder, **home, **variables)

    def succeeds(self, *arguments: str) -> str:
        done = self(*arguments)
        assert done.code == 0, done
        return done.out

    def json(self, *arguments: str) -> Any:
        return json.loads(self.succeeds(*arguments, "--json"))


def run_folder(project: PlanProject) -> Path:
    (folder,) = (project.folder / ".shiftboss" / "runs").iterdir()
    return folder


def as_printed(operator: Operator, line: str) -> Done:
    """Run a command that was printed, as a person would copy it."""
    arguments = subprocess.check_output(
        ["bash", "-c", f'printf "%s\\0" {line.strip()}'], text=True
    ).split("\0")[:-1]
    assert arguments[0] == "shiftboss", line
    return operator(*arguments[1:])


@pytest.mark.requirement("OWN-11", "OWN-12")
def test_an_operator_looks_at_a_run_stops_it_and_cleans_up(
    project: PlanProject, operator: Operator
) -> None:
    project.plan(task("a", do="hang"), task("b"))
    started = operator(
        "run",
        "plan.yaml",
        "--detach",
        "--trees",
        str(project.trees),
        PLAN_AGENT_MARKS=str(project.marks),
    )
    assert started.code == 0, started
    commands = dict(line.split(maxsplit=1) for line in started.out.splitlines()[1:])
    project.wait_for_agent("a.1")
    wait_until(lambda: "Add b" in project.landed(), "b landed", 60)
    folder = run_folder(project)
    facts = read_run_facts(folder)
    assert facts is not None
    assert as_printed(operator, commands["status"]).code == 0

    _look_at_the_work(operator, project)
    assert operator.json("clean")["leftovers"] == []
    refused = operator("attach", "a")
    assert refused.code == 1
    assert f"shiftboss logs a --swarm {folder.name} -f" in refused.err

    with running(
        "logs", "a", "-f", "--swarm", folder.name, SHIFTBOSS_DB=str(folder.parents[1] / "x.db")
    ) as following:
        assert following.line() == "starts a"
        again = operator("run", "plan.yaml", "--detach")
        assert (again.code, "running already" in again.err) == (1, True)
        stopped = as_printed(operator, commands["stop"])
        assert stopped.code == 0, stopped
        assert following.end().code == 0
    assert "to continue: shiftboss run plan.yaml" in stopped.out
    assert operator("run", "plan.yaml", "--attach").code == 130
    assert "starts a" in operator.succeeds("logs", "a")

    _clean_up(operator, project)


def _look_at_the_work(operator: Operator, project: PlanProject) -> None:
    tree = next(project.trees.glob("*/a.1"))
    (tree / "new.txt").write_text("not\nadded\n")
    (tree / "shared.txt").write_text("changed\n")
    admin = Path(project.git("rev-parse", "--git-common-dir"))
    indexes = list((project.repo / admin / "worktrees").glob("a.1*/index"))
    before = [(index.read_bytes(), index.stat().st_mtime_ns) for index in indexes]

    shown = operator.succeeds("diff", "a")
    assert "+# begun" in shown
    assert "+++ b/new.txt\n" in shown
    assert "-first\n+changed\n" in shown
    assert "\x1b[" not in shown
    assert before == [(index.read_bytes(), index.stat().st_mtime_ns) for index in indexes]
    work = operator.json("diff", "a")
    assert (work["kind"], work["tree"]) == ("work_tree", str(tree))
    assert {"path": "new.txt", "added": 2, "removed": 0} in work["files"]
    assert operator("diff", "a", "--claim").err.startswith("a has no claim yet")

    assert "test_b.py" in operator.succeeds("diff", "b", "--stat")
    landed = operator.json("diff", "b")
    assert (landed["kind"], len(landed["files"])) == ("landed", 2)


def _clean_up(operator: Operator, project: PlanProject) -> None:
    """Of the landed task everything goes; of the unfinished one only with --all."""
    listed = operator.json("clean")
    names = [leftover["name"] for leftover in listed["leftovers"]]
    assert [Path(name).name for name in names] == ["b.1"]
    assert [kept["bead_id"] for kept in listed["kept"]] == ["a"]
    assert Path(names[0]).is_dir()
    assert "shiftboss clean --apply" in operator.succeeds("clean")
    removed = operator.json("clean", "--apply")
    assert removed["removed"] == listed["leftovers"]
    assert not Path(names[0]).exists()
    assert operator.json("clean")["leftovers"] == []

    kinds = {leftover["kind"] for leftover in operator.json("clean", "--all")["leftovers"]}
    assert kinds == {"branch", "saved_work", "run"}
    operator.succeeds("clean", "--all", "--apply")
    assert project.git("for-each-ref", "refs/shiftboss", "refs/heads/shiftboss") == ""
    assert list((project.folder / ".shiftboss" / "runs").iterdir()) == []


@pytest.mark.requirement("OWN-11")
def test_commands_say_where_they_looked_in_vain(tmp_path: Path) -> None:
    nowhere = shiftboss("logs", "a", folder=tmp_path)
    assert (nowhere.code, nowhere.out) == (1, "")
    assert f"there is no folder .shiftboss in {tmp_path}" in nowhere.err
    (tmp_path / ".shiftboss").mkdir()
    unknown = shiftboss("logs", "a", folder=tmp_path)
    assert f"there is no a.N in {tmp_path / '.shiftboss' / 'runs' / '*'}" in unknown.err
    for swarm in ("one", "two"):
        (tmp_path / ".shiftboss" / "runs" / swarm / "a.1").mkdir(parents=True)
    ambiguous = shiftboss("logs", "a", folder=tmp_path)
    assert "`shiftboss logs a --swarm one` or `shiftboss logs a --swarm two`" in ambiguous.err
    missing = shiftboss("logs", "a", "--swarm", "one", "--attempt", "7", folder=tmp_path)
    assert "it has: 1" in missing.err
