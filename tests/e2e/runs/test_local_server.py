"""Runs in two repositories at once, and their operator, who has set up nothing."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.commands import Done, shiftboss
from tests.plan_runs import PlanProject, PlanRun, task

pytestmark = pytest.mark.requirement("OWN-12")


class PlainProject(PlanProject):
    """Its runs have no options about servers."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        super().__init__(folder)

    def start(self, *arguments: str, command: str = "run") -> PlanRun:
        options = [command, "plan.yaml", "--json", "--trees", str(self.trees), *arguments]
        return PlanRun(options, self.folder, self.environment(), forked=self.forked)

    def __call__(self, *arguments: str) -> Done:
        return shiftboss(*arguments, folder=self.repo)

    @property
    def swarm(self) -> str:
        (folder,) = (self.folder / ".shiftboss" / "runs").iterdir()
        return folder.name


def test_two_repositories_run_side_by_side_and_each_has_its_operator(tmp_path: Path) -> None:
    one, other = PlainProject(tmp_path / "one"), PlainProject(tmp_path / "other")
    one.plan(task("slow", do="hang"))
    other.plan(task("quick"))
    first = one.start()
    one.wait_for_agent("slow.1")
    assert other.run()["landed"] == ["quick"]

    paused = one("swarm", "pause", "--reason", "lunch", one.swarm)
    resume = f"resume it: shiftboss swarm resume {one.swarm}"
    assert paused == (0, f"{one.swarm} is paused until it is resumed; {resume}\n", "")
    assert one("swarm", "resume", one.swarm) == (0, f"{one.swarm} is resumed\n", "")
    first.stop(signal.SIGINT)

    for project, task_id in ((one, "slow"), (other, "quick")):
        listed = project("task", "list", "--swarm", project.swarm, "--json")
        assert listed.err == "no server is running; answered from ../.shiftboss/shiftboss.db\n"
        assert [row["bead_id"] for row in json.loads(listed.out)["tasks"]] == [task_id]
