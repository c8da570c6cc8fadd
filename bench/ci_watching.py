"""What it costs to follow the CI of a thousand commits, and to decide about a spawn in a graph of
a thousand repos."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path
from statistics import quantiles
from typing import Any

import httpx2
import uvloop

from bench.figures import Figure
from bench.running import forge
from shiftboss.coordinator.bus import add_tasks
from shiftboss.coordinator.clock import system_clock
from shiftboss.coordinator.contract.ci import PAUSE_MS_MAX
from shiftboss.coordinator.contract.policy import ActivePolicy
from shiftboss.coordinator.coordinator import Coordinator
from shiftboss.coordinator.duties.ci_watcher import AT_ONCE, CiWatcher
from shiftboss.evidence.inspector import Inspector
from shiftboss.protocol.bus import AddTaskRequest
from shiftboss.protocol.claims.attestations import Envelope
from shiftboss.protocol.claims.receipts import ReceiptBody, SignedReceipt
from shiftboss.protocol.contract.contract_requests import CanSpawnRequest
from shiftboss.protocol.policy import CiPolicy, Policy, RepoPolicy
from shiftboss.protocol.states import WorkerState
from shiftboss.protocol.swarms import CreateSwarmRequest
from shiftboss.rules.claims.statements import StatementBody
from shiftboss.rules.contract.records import RepoLock, Tracking
from shiftboss.rules.handoffs.handoffs import Handoff
from shiftboss.rules.tasks.packets import Assignment
from shiftboss.store.open_store import store_at
from shiftboss.store.port import Transaction

RUNS = 1000
POLL_SECONDS = 15
WATCHED_SECONDS = 30.0
DECISIONS = 2000
SWARM = "bench"


def run(folder: Path, seconds: float = WATCHED_SECONDS) -> list[Figure]:
    with forge() as url, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        core, check, counted = runner.run(_watch(folder / "watching", url, seconds))
        spawn = runner.run(_spawn(folder / "spawning"))
    assert counted["commits"] == RUNS, counted
    return [
        Figure(
            "requests per run and poll interval", POLL_SECONDS / counted["closest"], "", at_most=1
        ),
        Figure("requests to the forge at once", counted["at_once"], "", at_most=AT_ONCE),
        Figure("following 1,000 runs, of one core", core * 100, "%", at_most=5),
        Figure("processor time of one check", check, "ms"),
        Figure("p99 of a spawn decision among 1,000 repos", spawn, "ms", at_most=5),
    ]


class _Evidence(Inspector):
    """In this process, whose processor time is measured. Nothing is signed."""

    own_repo: str | None = None
    public_key = ""

    def replace_key(self, retired: Collection[str]) -> bool:
        raise NotImplementedError

    def sign(self, body: ReceiptBody) -> SignedReceipt:
        raise NotImplementedError

    def attest(self, body: StatementBody) -> Envelope:
        raise NotImplementedError


async def _watch(folder: Path, url: str, seconds: float) -> tuple[float, float, dict[str, float]]:
    """The share of a core, the milliseconds of one check, and what the forge counted."""
    ci = CiPolicy(provider="github", url=url, repository="o/r", poll_every=POLL_SECONDS)
    policy = Policy(repos={f"repo-{number}": RepoPolicy(ci=ci) for number in range(RUNS)})
    coordinator = await _opened(folder, policy)
    active_policy = ActivePolicy(policy)
    evidence = _Evidence(folder / "watcher")
    watcher = CiWatcher(coordinator.store, system_clock, coordinator.hub, active_policy, evidence)
    await coordinator.swarms.create_swarm(CreateSwarmRequest(swarm_id=SWARM, feature="bench"))
    await _write(coordinator, lambda tx, number: _follow(tx, active_policy, number))
    await watcher.run_once()
    await _write(coordinator, _some_minutes_later)
    watching = asyncio.create_task(watcher.run())
    await asyncio.sleep(POLL_SECONDS)
    before = time.process_time()
    await asyncio.sleep(seconds)
    used = time.process_time() - before
    watching.cancel()
    async with httpx2.AsyncClient(base_url=url, trust_env=False) as client:
        counted: dict[str, float] = (await client.get("/figures")).json()
    await evidence.close()
    await coordinator.stop()
    return used / seconds, used * 1000 / (counted["requests"] - RUNS), counted


def _some_minutes_later(tx: Transaction, number: int) -> None:
    """Nothing has changed, so the pauses are long, and the looks have spread out."""
    tx.take_swarm(SWARM)
    tracking = tx.tracking(SWARM, f"bd-{number}")
    assert tracking is not None
    assert tracking.look_at_ms is not None
    next_at_ms = tracking.look_at_ms + PAUSE_MS_MAX * number // RUNS
    tx.put_tracking(tracking._replace(look_at_ms=next_at_ms, pause_ms=PAUSE_MS_MAX))


async def _spawn(folder: Path) -> float:
    """Layers of a hundred, each repo built on three of the layer below; a third is worked on."""
    repos = {}
    for number in range(RUNS):
        layer, place = divmod(number, 100)
        below = {(place + shift) % 100 for shift in (0, 1, 7)} if layer else set()
        repos[f"repo-{number}"] = RepoPolicy(
            path="/nowhere", depends_on=[f"repo-{(layer - 1) * 100 + place}" for place in below]
        )
    coordinator = await _opened(folder, Policy(repos=repos))
    await _write(coordinator, _lock_every_third)
    taken = []
    for number in range(DECISIONS):
        started_at = time.perf_counter()
        await coordinator.contract.can_spawn(CanSpawnRequest(repo=f"repo-{number % RUNS}"))
        taken.append((time.perf_counter() - started_at) * 1000)
    await coordinator.stop()
    return quantiles(taken, n=100)[98]


def _lock_every_third(tx: Transaction, number: int) -> None:
    if number % 3 == 0:
        tx.add_repo_lock(RepoLock(f"repo-{number}", SWARM, f"bd-{number}", 0))


async def _opened(folder: Path, policy: Policy) -> Coordinator:
    """Without its duties: they would take part in what is measured."""
    await asyncio.to_thread(folder.mkdir, parents=True)
    coordinator = Coordinator(store_at(folder / "bench.db"), policy=policy, verifies=False)
    coordinator.everywhere.duties.clear()
    coordinator.on_leader.duties.clear()
    await coordinator.start()
    return coordinator


async def _write(coordinator: Coordinator, use_case: Callable[[Transaction, int], None]) -> None:
    def write(number: int) -> Awaitable[None]:
        return coordinator.store.write(lambda tx: use_case(tx, number), SWARM)

    await asyncio.gather(*map(write, range(RUNS)))


def _follow(tx: Transaction, active_policy: ActivePolicy, number: int) -> None:
    """A task that was pushed just now."""
    task, repo = f"bd-{number}", f"repo-{number}"
    sha = hashlib.sha1(task.encode()).hexdigest()
    now_ms = system_clock()
    about: dict[str, Any] = {"swarm_id": SWARM, "task_id": task}
    tx.take_swarm(SWARM)
    add_tasks.add(tx, AddTaskRequest(swarm_id=SWARM, bead_id=task, title=task), now_ms)
    tx.add_handoff(
        Handoff(
            **about,
            version=1,
            hash="0" * 64,
            body="{}",
            repo="/nowhere",
            base_commit=sha,
            branch="main",
            target=None,
            policy="{}",
            strategy=None,
            reason="spawned",
            created_at_ms=now_ms,
            said="",
            repo_id="/nowhere",
            repo_name=repo,
            ci=active_policy.demand(repo, "/nowhere").model_dump_json(),
        )
    )
    tx.put_assignment(
        Assignment(
            **about,
            epoch=1,
            state=WorkerState.VERIFYING,
            packet_id=None,
            worker=f"w-{number}",
            worktree="",
            steps_total=0,
            steps_completed=0,
            retries_open=0,
            registered_at_ms=now_ms,
            updated_at_ms=now_ms,
            contract_version=1,
        )
    )
    tx.put_tracking(
        Tracking(
            **about,
            epoch=1,
            repo=repo,
            sha=sha,
            state="waiting",
            run_id=None,
            report=None,
            errors=0,
            pushed_at_ms=now_ms,
            look_at_ms=now_ms,
        )
    )
