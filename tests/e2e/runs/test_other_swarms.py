"""A run whose files belong to another swarm continues as soon as they are free."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from shiftboss.client.server_address import Server
from shiftboss.orchestrator.run import plan_run
from shiftboss.orchestrator.run.bootstrap import RunOptions, run_plan
from shiftboss.orchestrator.run.plan_file import load_plan
from shiftboss.orchestrator.run.progress import Progress
from shiftboss.orchestrator.run.server_client import RunServerClient
from tests.plan_runs import PlanProject, task
from tests.running import RunningServer
from tests.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("OWN-11")]


async def test_a_run_is_woken_when_another_swarm_frees_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_run, "POLL_SECONDS", 3600.0)
    project = PlanProject(tmp_path)
    agent = {"kind": "command", "command": ["true"]}
    project.plan(task("one"), swarm="mine", agents={"script": agent})
    server = RunningServer(tmp_path / ".shiftboss" / "shiftboss.db").start()
    progress = Progress()
    options = RunOptions(
        load_plan(project.folder / "plan.yaml"),
        Server.at(server.url),
        str(tmp_path / "state" / "shiftboss.db"),
        trees=project.trees,
    )
    try:
        async with RunServerClient(Server.at(server.url), "other") as other:
            await other.create_swarm("g")
            await other.spawn(
                bead_id="a",
                subtask_title="A",
                files=["one.py"],
                success_criteria=["It works"],
                repo=str(project.repo),
            )
            running = asyncio.create_task(run_plan(options, progress))
            row = progress.row("one")
            await eventually(lambda: "other" in row.doing or running.done(), "it waits", 60)
            assert not running.done()
            await other.call("cancel_task", bead_id="a", reason="not needed")
            await eventually(lambda: row.stage != "waiting", "it goes on", 60)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
    finally:
        server.close()
