"""Agents that people use, started as `shiftboss run` starts them: no login, no network, no model
but a script."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shiftboss.agents.launch import Launch
from shiftboss.agents.output_events import Denied, Finished, Signal, Usage
from shiftboss.agents.registry import AGENTS as KNOWN
from shiftboss.hooks.contract import write_contract
from shiftboss.orchestrator.attempt.workspace import AgentAssignment, Workspace
from shiftboss.orchestrator.guardian.agent_process import AgentProcess, ProcessLimits
from shiftboss.protocol.plan import PlanAgent
from tests.contract_server import WORKER, ContractServer
from tests.e2e.agents.model_dialects import INPUT_TOKENS, OUTPUT_TOKENS
from tests.e2e.agents.npm import INSTALL_SECONDS
from tests.e2e.agents.real_agents import AGENTS, Work, foreign
from tests.e2e.agents.scripted_model import speaking
from tests.e2e.worktrees.worktree_fixtures import run_in
from tests.repos import ENVIRONMENT, Repo

pytestmark = pytest.mark.timeout(INSTALL_SECONDS + 180)

TASK = "bd-1"
TOKEN = "a-token-that-is-long-enough-for-the-server"
RUN_SECONDS = 150.0


@pytest.fixture
def contract_server(tmp_path: Path) -> Iterator[ContractServer]:
    """A server that requires a token from everyone."""
    contract_server = ContractServer(tmp_path, {}, token=TOKEN, spawning="everybody")
    yield contract_server
    contract_server.close()


class Told:
    """The result of parsing an agent's output."""

    def __init__(self, signals: list[Signal], exit_code: int | None, log: str) -> None:
        self.signals = signals
        self.usage = [one for one in signals if isinstance(one, Usage)]
        self.denied = [one for one in signals if isinstance(one, Denied)]
        self.finished = [one for one in signals if isinstance(one, Finished)]
        self.exit_code = exit_code
        self.log = log


@pytest.mark.requirement("OWN-01", "OWN-03", "CC-07", "HO-10")
@pytest.mark.parametrize("kind", AGENTS)
def test_a_real_agent_does_its_task_within_its_contract(
    contract_server: ContractServer, tmp_path: Path, kind: str
) -> None:
    real = AGENTS[kind]
    repo = Repo(tmp_path / "repo")
    workspace = make_workspace(contract_server, repo, repo.on_main(real.tree), tmp_path)
    claim = {
        "bead_id": TASK,
        "name": WORKER,
        "epoch": workspace.assignment.epoch,
        "summary": "done",
    }
    with speaking(real.script(Work(workspace.tree, lambda: claim))) as model:
        settings = real.settings(kind, Path(workspace.environment["HOME"]), model.url)
        launch = KNOWN[kind].launch(workspace, settings, "Do the task.", real.model)
        parsed = asyncio.run(run(launch, kind, settings, workspace.scratch / "output.log"))
    assert parsed.exit_code == 0, parsed.log

    _own, other, _commit, claimed = model.results
    for word in ("docs/foreign.md", f"contract of task {TASK}", "request_scope"):
        assert word in other
    assert not (workspace.tree / "docs").exists()
    (denied,) = parsed.denied
    assert f"contract of task {TASK}" in denied.error
    # During the work, not after it.
    assert parsed.signals.index(denied) < parsed.signals.index(parsed.finished[0])

    # It has our tools and the token; where it can be kept from ending, it claimed because of that.
    assert "accepted" in claimed, claimed
    assert contract_server.ask("show_task", bead_id=TASK)["status"] == "done"
    assert repo.git("show", f"shiftboss/{TASK}:src/auth/new.py") == "x = 1"

    requests = 6 if real.stops else 5
    assert parsed.usage[-1].input_tokens == requests * INPUT_TOKENS
    assert parsed.usage[-1].output_tokens == requests * OUTPUT_TOKENS
    assert parsed.usage[-1].dollars
    assert parsed.finished[-1] == Finished(True, "It is accepted.")
    assert_left_alone(workspace)


def make_workspace(
    contract_server: ContractServer, repo: Repo, base: str, folder: Path
) -> Workspace:
    """A task held by a worker, in its own tree."""
    contract_server.ask("register_worker", name=WORKER)
    # Names that a shell would split.
    branch, home, scratch = f"shiftboss/{TASK}", folder / "home", folder / "it's a scratch"
    where = {"repo": str(repo.path), "base": base, "branch": branch, "target": "main"}
    request = {"subtask_title": "the work", "success_criteria": ["It works"], "submit": True}
    contract_server.ask(
        "swarm_spawn_subtask", bead_id=TASK, files=["src/auth/"], **request, **where
    )
    given = contract_server.ask("poll_task", name=WORKER, timeout_ms=10_000)["task"]
    contract_server.ask("ack_task", name=WORKER, bead_id=TASK)
    tree = folder / "the $tree"
    repo.git("worktree", "add", "--quiet", "-b", branch, str(tree), base)
    for made in (home, scratch):
        made.mkdir(mode=0o700)
    view = contract_server.ask("show_handoff", bead_id=TASK)
    assignment = AgentAssignment(
        swarm_id="default",
        bead_id=TASK,
        title="the work",
        worker=WORKER,
        epoch=given["epoch"],
        repo=repo.path,
        base=base,
        branch=branch,
        target="main",
        contract_version=view["version"],
        handoff=view["handoff"],
        contract_hash=view["hash"],
    )
    environment = {**ENVIRONMENT, "HOME": str(home), "TERM": "dumb"}
    workspace = Workspace(assignment, tree, scratch, contract_server.server.url, TOKEN, environment)
    write_contract(workspace.contract_file, contract(workspace))
    return workspace


def contract(workspace: Workspace) -> dict[str, Any]:
    members = dataclasses.asdict(workspace.assignment)
    kept = ("swarm_id", "bead_id", "worker", "epoch", "contract_version", "contract_hash")
    rest = {"handoff": members["handoff"], "base": members["base"], "branch": members["branch"]}
    where = {"tree": str(workspace.tree), "server_url": workspace.server_url, "generated": []}
    return {key: members[key] for key in kept} | rest | where


async def run(launch: Launch, kind: str, settings: PlanAgent, log: Path) -> Told:
    """Run it to the end, and read its output line by line."""
    priced = settings.model_copy(update={"input_price": 1.0, "output_price": 2.0})
    reader = KNOWN[kind].reader(priced)
    signals: list[Signal] = []
    process = await AgentProcess.start(launch, log, ProcessLimits())
    try:
        async with asyncio.timeout(RUN_SECONDS):
            async for line in process.lines():
                signals += reader.read(line)
            exited = await process.wait()
    finally:
        await process.end(0)
    signals += reader.ended(exited.exit_code, process.error_tail)
    return Told(signals, exited.exit_code, f"{exited.detail}\n{process.error_tail}")


def assert_left_alone(workspace: Workspace) -> None:
    """Nothing of ours is in the tree, no token in a file, and nobody else's server was started."""
    assert not foreign(Path(workspace.environment["HOME"])).exists()
    assert run_in(workspace.tree, "git", "status", "--porcelain").stdout == ""
    for file in workspace.scratch.rglob("*"):
        if file.is_file() and file.suffix in (".json", ".js", ".toml"):
            assert TOKEN.encode() not in file.read_bytes(), file
