"""Agents that take tasks, work on them, and try what they may not do."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from pathlib import Path
from typing import Final

from shiftboss import BusWorker
from shiftboss.rules.access.roles import Permission
from shiftboss.worker.bus_task import BusTask
from tests.e2e.team.callers import Caller
from tests.e2e.team.misdeeds import Liar, Misdeed, Target, misdeeds
from tests.repos import Repo

MISDEEDS_PER_TASK: Final = 5


class Board:
    """What the agents do, as they see it. A task that ends with `-held` is finished when its gate
    opens, and one that ends with `-asks` when somebody has answered its question."""

    def __init__(self, repo: Repo) -> None:
        self.repo = repo
        self.gates: dict[str, asyncio.Event] = defaultdict(asyncio.Event)
        # By task: everybody who held it, with the epoch; who finished it, with the receipt.
        self.held: dict[str, list[tuple[str, int]]] = defaultdict(list)
        self.finished: dict[str, list[tuple[str, str | None]]] = defaultdict(list)

    def target(self, swarm: str, but: str = "") -> Target:
        """A task of the swarm that somebody else holds, if there is one."""
        for task, [*_, (holder, _)] in self.held.items():
            if task.startswith(swarm) and task not in self.finished and holder != but:
                return Target(swarm, task, holder)
        return Target(swarm, f"{swarm}-none", "nobody")


class Agent(Liar):
    def __init__(
        self, board: Board, caller: Caller, swarm: str, other_swarm: str, token_file: Path
    ) -> None:
        super().__init__(caller)
        self.swarm = swarm
        self.token_file = token_file
        # Its token may be limited to its name, too.
        self.is_known_by_name = False
        self._board = board
        self._other_swarm = other_swarm

    async def work(self) -> None:
        worker = BusWorker(
            self.caller.name,
            server=self.caller.addresses,
            token_file=self.token_file,
            swarm_id=self.swarm,
        )
        async with worker:
            async for task in worker.tasks():
                await self._do(task)

    async def _do(self, task: BusTask) -> None:
        board = self._board
        board.held[task.bead_id].append((self.caller.name, task.epoch))
        await self.misbehave(list(self._misdeeds()), MISDEEDS_PER_TASK)
        if task.bead_id.endswith("-held"):
            await board.gates[task.bead_id].wait()
        elif task.bead_id.endswith("-asks"):
            answer = await task.ask(f"How is {task.bead_id} done?")
            assert answer == "As otto says.", answer
        commit = None
        if task.handoff is not None:
            commit = await asyncio.to_thread(commit_work, board.repo, task.bead_id)
        receipt = await task.done(commit)
        board.finished[task.bead_id].append((self.caller.name, receipt))

    def _misdeeds(self) -> list[Misdeed]:
        own = self._board.target(self.swarm, but=self.caller.name)
        foreign = self._board.target(self._other_swarm)
        found: list[Misdeed] = []
        for permission in (
            Permission.SPAWN,
            Permission.STEER,
            Permission.OPERATE,
            Permission.VERIFY,
        ):
            found += misdeeds(permission, own)
        found += misdeeds(Permission.READ, foreign)
        found += misdeeds(Permission.WORK, foreign)
        found += [
            Misdeed(f"/swarm/{self._other_swarm}/status", None),
            Misdeed(f"/swarm/{self._other_swarm}/events?follow=false", None),
        ]
        if self.is_known_by_name:
            found += misdeeds(Permission.WORK, own)
        return found


def commit_work(repo: Repo, task: str) -> str:
    """A commit on the branch of the task, without a work tree: the agents share the repository."""
    text = f"# {task}\n"
    stream = (
        f"commit refs/heads/{task}\ncommitter Worker <w@shiftboss.invalid> 1700000000 +0000\n"
        f"data {len(task)}\n{task}\nfrom {repo.base}\nM 100644 inline src/{task}.py\n"
        f"data {len(text)}\n{text}\n"
    )
    repo.git("fast-import", "--quiet", stdin=stream.encode())
    return repo.git("rev-parse", f"refs/heads/{task}")
