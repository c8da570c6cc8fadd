"""`shiftboss run` with agents that people use, one of each, from a plan to landed commits: no
login, no network, no model but a script."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from shiftboss.evidence.receipt_verification import verify_receipt
from shiftboss.protocol.claims.receipts import SignedReceipt
from shiftboss.rules.prompts.agent_prompts import PROMPT_TOKENS_MAX
from shiftboss.rules.prompts.token_estimate import estimate_tokens
from tests.client import Client
from tests.commands import shiftboss
from tests.e2e.agents.model_dialects import INPUT_TOKENS, OUTPUT_TOKENS
from tests.e2e.agents.npm import INSTALL_SECONDS
from tests.e2e.agents.real_agents import AGENTS, RealAgent, Work, foreign
from tests.e2e.agents.scripted_model import ScriptedModel, speaking
from tests.plan_runs import PlanRun
from tests.repos import Repo
from tests.running import RunningServer

RUN_SECONDS: Final = 240.0
pytestmark = pytest.mark.timeout(2 * INSTALL_SECONDS + RUN_SECONDS + 60)

SWARM: Final = "real"
CRITERION: Final = "Command passes: python3 -B -c 'import src.auth.new as new; assert new.x == 1'"
# As often as ends a worker whose tools are denied by anybody else.
INSISTS: Final = 2
# Part of the keys of all models.
SECRET: Final = b"of-nobody"


class Workshop:
    """A plan with a task, a repository and a model for each agent."""

    def __init__(self, folder: Path, models: ExitStack) -> None:
        self.folder = folder
        self.state = folder / ".shiftboss"
        self.home = folder / "home"
        self.home.mkdir()
        self.repos = {kind: repository(folder / kind, real) for kind, real in AGENTS.items()}
        self.models: dict[str, ScriptedModel] = {}
        self._environment = {"HOME": str(self.home), "PATH": os.environ["PATH"]}
        commands: dict[str, dict[str, Any]] = {}
        for kind, real in AGENTS.items():
            tree = folder / "trees" / SWARM / f"{kind}.1"
            work = Work(tree, partial(self.claim, kind), INSISTS)
            self.models[kind] = models.enter_context(speaking(real.script(work)))
            settings = real.settings(kind, self.home, self.models[kind].url)
            commands[kind] = settings.model_dump(include={"kind", "command"})
            # Keys are in the environment, where people have them, and not in the plan.
            self._environment |= settings.environment
        (folder / "plan.yaml").write_text(yaml.safe_dump(plan(commands)))

    def run(self) -> dict[str, Any]:
        arguments = ["run", "plan.yaml", "--own-server", "--json"]
        arguments += ["--trees", str(self.folder / "trees")]
        return PlanRun(arguments, self.folder, self._environment).outcome(RUN_SECONDS)

    def claim(self, kind: str) -> dict[str, Any]:
        """As the prompt asks for it."""
        call = re.search(r"swarm_complete\((.*), summary\)", self.prompt(kind))
        assert call, self.prompt(kind)
        members = dict(one.split("=") for one in call[1].split(", "))
        return {name: json.loads(value) for name, value in members.items()} | {"summary": "done"}

    def prompt(self, kind: str) -> str:
        return (self.state / "runs" / SWARM / f"{kind}.1" / "prompt.md").read_text()

    def told(self, kind: str) -> list[str]:
        """What people were told of a task, without the times."""
        lines = (self.state / "runs" / SWARM / "run.log").read_text().splitlines()
        begin = f"{kind}: "
        return [line[21:].removeprefix(begin) for line in lines if line[21:].startswith(begin)]

    def files(self) -> Iterator[Path]:
        for folder in (self.state, self.folder / "trees"):
            yield from (file for file in folder.rglob("*") if file.is_file())


def repository(path: Path, real: RealAgent) -> Repo:
    """Its files try to disable our hooks."""
    repo = Repo(path)
    repo.git("config", "user.name", "Owner")
    repo.git("config", "user.email", "owner@example.com")
    repo.on_main(real.tree)
    return repo


def plan(commands: dict[str, dict[str, Any]]) -> dict[str, Any]:
    tasks = [
        {
            "id": kind,
            "title": f"Add x with {kind}",
            "repo": kind,
            "agent": kind,
            "model": real.model,
            "files_owned": ["src/auth/"],
            "criteria": [CRITERION],
        }
        for kind, real in AGENTS.items()
    ]
    repos = {kind: {"path": kind, "branch": "main"} for kind in AGENTS}
    rest = {"repos": repos, "agents": commands, "tasks": tasks}
    return {"goal": "One of each", "swarm": SWARM, "workers": len(AGENTS), **rest}


@pytest.mark.requirement("OWN-01", "OWN-03", "HO-10", "CC-08")
def test_real_agents_take_a_plan_to_landed_commits(tmp_path: Path) -> None:
    with ExitStack() as models:
        workshop = Workshop(tmp_path, models)
        outcome = workshop.run()
    assert outcome["landed"] == list(AGENTS), outcome
    for kind, real in AGENTS.items():
        assert_was_kept_to_its_contract(workshop, kind, real)
        assert_prompt_was_short(workshop, kind)
    assert_nothing_leaked(workshop)
    server = RunningServer(workshop.state / "shiftboss.db").start()
    try:
        assert_is_on_record(workshop, server.url)
    finally:
        server.close()


def assert_was_kept_to_its_contract(workshop: Workshop, kind: str, real: RealAgent) -> None:
    _own, *refused, _commit, claimed = workshop.models[kind].results
    assert len(refused) == INSISTS
    for refusal in refused:
        assert f"contract of task {kind}" in refusal
        # As it can be called: the task is not of the swarm that is meant otherwise.
        assert f'request_scope(swarm_id="{SWARM}", bead_id="{kind}"' in refusal.replace('\\"', '"')
    assert "accepted" in claimed, claimed
    assert ("Your task has no verdict yet" in workshop.models[kind].asked) == real.stops

    repo = workshop.repos[kind]
    assert repo.git("show", "main:src/auth/new.py") == "x = 1"
    assert repo.git("ls-tree", "main", "docs") == ""
    assert repo.git("worktree", "list", "--porcelain").count("worktree ") == 1
    assert repo.git("branch", "--list", "shiftboss/*") == ""

    # One attempt did it: it may be refused by us more often than by others.
    given, *denied, accepted, landed = workshop.told(kind)
    assert given.endswith("attempt 1")
    assert len(denied) == INSISTS, denied
    assert all("was denied: Shiftboss refused this" in line for line in denied)
    assert accepted.startswith("accepted, receipt ")
    assert landed == f"landed on main as {repo.git('rev-parse', 'main')[:12]}"


def assert_prompt_was_short(workshop: Workshop, kind: str) -> None:
    prompt = workshop.prompt(kind)
    assert estimate_tokens(prompt) <= PROMPT_TOKENS_MAX
    assert json.dumps(prompt.strip())[1:-1] in workshop.models[kind].asked, "all of it was read"


def assert_nothing_leaked(workshop: Workshop) -> None:
    assert not foreign(workshop.home).exists()
    (token_file,) = [file for file in workshop.files() if file.name == "operator-token"]
    assert token_file.stat().st_mode & 0o077 == 0
    token = token_file.read_bytes().strip()
    for file in workshop.files():
        assert SECRET not in file.read_bytes(), file
        assert file == token_file or token not in file.read_bytes(), file


def assert_is_on_record(workshop: Workshop, url: str) -> None:
    used = json.loads(shiftboss("usage", "--swarm", SWARM, "--json", url=url).out)
    tasks = {task["bead_id"]: task["used"] for task in used["tasks"]}
    for kind, real in AGENTS.items():
        # Each tool and the last words, and once more where it was kept from ending.
        requests = 4 + INSISTS + real.stops
        assert tasks[kind]["input_tokens"] == requests * INPUT_TOKENS, kind
        assert tasks[kind]["output_tokens"] == requests * OUTPUT_TOKENS, kind
    client = Client(url)
    try:
        for kind in AGENTS:
            answer = client.post("/bus/show_receipt", {"swarm_id": SWARM, "bead_id": kind}).json()
            signed = SignedReceipt.model_validate(answer["signed_receipt"])
            verify_receipt(signed, answer["public_key"])
            assert signed.receipt.commit == workshop.repos[kind].git("rev-parse", "main")
    finally:
        client.close()
