"""Two servers on one PostgreSQL, and everybody who works with them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from shiftboss.rules.access.roles import Permission, Role, is_allowed
from tests.e2e.team.agents import Agent, Board
from tests.e2e.team.callers import Caller
from tests.e2e.team.misdeeds import Liar, misdeeds
from tests.e2e.team.team_server import TeamServer
from tests.plan_runs import FEWER_RUNS
from tests.repos import UNCONTAINED, Repo

OPERATOR_TOKEN: Final = "of-the-operator-of-both-servers"
SWARMS: Final = ("shop", "bank")
# Their names, roles and limits.
PEOPLE: Final[dict[str, dict[str, str]]] = {
    "olivia": {"role": "operator"},
    "otto": {"role": "orchestrator"},
    "sam": {"role": "spawner"},
    "rita": {"role": "read-only", "swarm_id": "shop"},
    "vera": {"role": "verifier", "worker": "vera"},
}
AGENTS_PER_SWARM: Final = 4
MISDEEDS_PER_INCIDENT: Final = 8


class Team:
    def __init__(self, database: str, folder: Path) -> None:
        self.folder = folder
        self.database = database
        self.servers = tuple(
            TeamServer(database, folder / name, OPERATOR_TOKEN) for name in ("first", "second")
        )
        self.repo = Repo(folder / "repo", has_task=False)
        self.board = Board(self.repo)
        self.people: dict[str, Caller] = {}
        self.liars: dict[str, Liar] = {}
        self.agents: list[Agent] = []
        self.done_before_backup: set[str] = set()
        # Every token that there ever was.
        self.secrets = [OPERATOR_TOKEN]

    @property
    def addresses(self) -> list[str]:
        return [server.url for server in self.servers]

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        """An error of an agent ends the test."""
        async with asyncio.TaskGroup() as group:
            working = [group.create_task(agent.work()) for agent in self.agents]
            yield
            for task in working:
                task.cancel()

    async def hire(self) -> None:
        """Give everybody a token, and create the swarms."""
        root = Caller("operator", OPERATOR_TOKEN, self.addresses)
        for name, limits in PEOPLE.items():
            token = await self._create_token(root, name, **limits)
            self.people[name] = Caller(name, token, self.addresses)
            self.liars[name] = Liar(self.people[name])
        for swarm in SWARMS:
            await self.people["otto"].call("/swarm/create", swarm_id=swarm)
        for number in range(2 * AGENTS_PER_SWARM):
            await self._hire_agent(number)

    async def _hire_agent(self, number: int) -> None:
        """Agents with an odd number are known by the name of their worker, too."""
        swarm, other = SWARMS if number < AGENTS_PER_SWARM else SWARMS[::-1]
        name = f"agent-{number}"
        limits = {"worker": name} if number % 2 else {}
        token = await self._create_token(
            self.people["olivia"], name, role="worker", swarm_id=swarm, **limits
        )
        file = self.folder / f"{name}.token"
        write_private(file, token)
        # Half of them begin with the one server, half with the other.
        addresses = self.addresses[:: 1 if number % 4 < 2 else -1]
        agent = Agent(self.board, Caller(name, token, addresses), swarm, other, file)
        agent.is_known_by_name = bool(limits)
        self.agents.append(agent)

    async def _create_token(self, by: Caller, name: str, **limits: str) -> str:
        token = str((await by.operate("create_token", name=name, **limits))["token"])
        self.secrets.append(token)
        return token

    def agents_of(self, swarm: str) -> set[str]:
        return {agent.caller.name for agent in self.agents if agent.swarm == swarm}

    def holder(self, task: str) -> Agent:
        (name, _), *_ = reversed(self.board.held[task])
        return next(agent for agent in self.agents if agent.caller.name == name)

    async def people_misbehave(self) -> None:
        """The operator may do everything."""
        target = self.board.target("shop")
        for name, liar in self.liars.items():
            role = Role(PEOPLE[name]["role"])
            forbidden = [
                misdeed
                for permission in Permission
                if not is_allowed(role, permission)
                for misdeed in misdeeds(permission, target)
            ]
            if name == "rita":
                forbidden += misdeeds(Permission.READ, self.board.target("bank"))
            if forbidden:
                await liar.misbehave(forbidden, MISDEEDS_PER_INCIDENT)

    async def add_tasks(self, swarm: str, *tasks: str) -> None:
        """The spawner adds them, the orchestrator submits them."""
        for task in tasks:
            if task.endswith("-contract"):
                await self.people["sam"].bus(
                    "swarm_spawn_subtask",
                    swarm_id=swarm,
                    bead_id=task,
                    subtask_title=task,
                    files=[f"src/{task}.py"],
                    files_readonly=[],
                    repo=str(self.repo.path),
                    branch=task,
                    target="main",
                    success_criteria=[f"Command passes: grep -q {task} src/{task}.py"],
                    policy=UNCONTAINED | FEWER_RUNS,
                )
            else:
                await self.people["sam"].bus("add_task", swarm_id=swarm, bead_id=task, title=task)
            await self.people["otto"].bus("submit_task", swarm_id=swarm, bead_id=task)

    def close(self) -> None:
        for server in self.servers:
            server.close()


def write_private(file: Path, text: str) -> None:
    file.touch(0o600)
    file.write_text(text)
