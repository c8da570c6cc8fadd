"""A run that is looked at while it goes on, and continued after it was interrupted."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.commands import Done, shiftboss
from tests.plan_runs import PlanProject, task
from tests.waiting import wait_until


@pytest.fixture
def project(tmp_path: Path) -> PlanProject:
    return PlanProject(tmp_path)


def server_of(project: PlanProject) -> str:
    """The address of the server of the last run."""
    (log,) = (project.folder / ".shiftboss" / "runs").glob("*/run.log")
    return str(re.findall(r"swarm \S+ at (http\S+)", log.read_text())[-1])


def command(project: PlanProject, *arguments: str) -> Done:
    variables = {name: project.environment()[name] for name in ("HOME", "PLAN_AGENT_MARKS")}
    return shiftboss(*arguments, folder=project.folder, **variables)


def status(project: PlanProject) -> dict[str, Any]:
    seen = command(project, "status", "--json", "--server", server_of(project))
    assert seen.code == 0, seen
    (swarm,) = json.loads(seen.out)["swarms"]
    return dict(swarm)


@pytest.mark.requirement("OWN-11")
def test_status_shows_a_run_and_the_next_run_starts_with_what_landed(project: PlanProject) -> None:
    project.plan(task("quick"), task("slow", do="hang"), swarm="sums")
    first = project.start()
    project.wait_for_agent("slow.1")
    wait_until(lambda: status(project)["bus"]["landed"] == 1, "the quick one has landed", 60)
    seen = status(project)
    assert (seen["swarm_id"], seen["status"]) == ("sums", "running")
    assert seen["plan_file"] == str(project.folder / "plan.yaml")
    counts = {name: seen["bus"][name] for name in ("total", "active", "done", "receipts")}
    assert counts == {"total": 2, "active": 1, "done": 1, "receipts": 1}
    assert seen["bus"]["tokens"] >= 1100
    first.stop(signal.SIGINT)

    again = command(project, "run", "plan.yaml", "--own-server", "--trees", str(project.trees))
    assert again.code == 0, again
    assert re.search(r"landed    quick  [0-9a-f]{12}  receipt \S+\n", again.out), again.out
    assert re.search(r"slow: assigned to sums-\d, attempt 1\n", again.out), again.out
    # With the tokens of the first run, of which the interrupted agent may have reported none.
    assert re.search(r"(2,200|3,300) tokens, \$0\.0[23]\n", again.out), again.out
