"""Repo locks: the document's rules and examples, atomic with the spawn, on both stores."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, nullcontext
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from shiftboss.coordinator.contract.policy import ActivePolicy
from shiftboss.coordinator.handoffs.spawn import spawn
from shiftboss.errors import (
    ContractViolations,
    InvalidRequest,
    RepoBlocked,
    StoreUnavailable,
    UnknownRepo,
)
from shiftboss.evidence.port import Survey
from shiftboss.protocol.contract.contract_requests import CanSpawnRequest, ReposRequest
from shiftboss.protocol.handoff_requests import AmendHandoffRequest, SpawnSubtaskRequest
from shiftboss.protocol.policy import Policy, RepoPolicy
from shiftboss.protocol.states import WorkerState
from shiftboss.rules.access.actors import Actor
from shiftboss.rules.access.roles import Role
from shiftboss.rules.tasks.swarms import Swarm
from shiftboss.store.current_actor import CURRENT_ACTOR
from shiftboss.store.port import Transaction
from tests.conformance.contract.contract_fixtures import ContractFixture, open_contract, runs
from tests.conformance.opened import OpenStore, opened
from tests.document_repos import CAN_PARALLEL, CANNOT_PARALLEL, DEPENDS_ON
from tests.repos import Repo

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("CC-05")]

# The same repository data for every task: no repository is read.
SURVEY = Survey("/repo", "/repo/.git", "b" * 40, "task", [], ["It works"])


class Spawner:
    """The use case of swarm_spawn_subtask, without reading a repository first."""

    def __init__(self, stores: list[OpenStore], policy: Policy) -> None:
        self.stores = stores
        self.active_policy = ActivePolicy(policy)

    async def spawn(self, task: str, repo: str, swarm_id: str = "s", at: int = 0) -> bool:
        request = SpawnSubtaskRequest(
            swarm_id=swarm_id,
            bead_id=task,
            files=[f"{task}.py"],
            subtask_title=task,
            submit=True,
        )

        def use_case(tx: Transaction) -> object:
            return spawn(
                tx,
                request,
                SURVEY,
                replace=False,
                planned=False,
                now_ms=1,
                policy=self.active_policy,
                repo_name=repo,
            )

        while True:
            try:
                await self.stores[at].write(use_case, swarm_id)
            except RepoBlocked:
                return False
            except StoreUnavailable:
                continue  # two servers conflicted: nothing was changed, try again
            return True

    async def active(self) -> set[str]:
        return {one.repo for one in await self.stores[0].read(lambda tx: tx.repo_locks())}

    async def free(self) -> None:
        for repo in await self.active():
            await self.stores[0].write(lambda tx, repo=repo: tx.release_repo(repo))  # type: ignore[misc]


def policy_of(graph: dict[str, list[str]], locking: str = "neighbours") -> Policy:
    repos = {name: RepoPolicy(path="/repo", depends_on=above) for name, above in graph.items()}
    return Policy(repos=repos, locking=locking)  # type: ignore[arg-type]


async def spawner(stores: list[OpenStore], policy: Policy, *swarms: str) -> Spawner:
    for swarm_id in swarms or ("s",):
        await stores[0].write(
            lambda tx, one=swarm_id: tx.add_swarm(Swarm(one, "", "", False, True, None, 1, None)),  # type: ignore[misc]
            swarm_id,
        )
    return Spawner(stores, policy)


@pytest.mark.requirement("CC-10")
async def test_the_pairs_of_the_document(store: OpenStore) -> None:
    here = await spawner([store], policy_of(DEPENDS_ON))
    for number, (pair, both) in enumerate(
        [(pair, True) for pair in CAN_PARALLEL] + [(pair, False) for pair in CANNOT_PARALLEL]
    ):
        for way, (one, other) in enumerate((pair, pair[::-1])):
            assert await here.spawn(f"{number}-{way}-a", one)
            assert await here.spawn(f"{number}-{way}-b", other) is both, (one, other)
            assert await here.active() == ({one, other} if both else {one})
            # A refused spawn leaves nothing behind.
            known = await store.read(lambda tx, n=number, w=way: tx.task("s", f"{n}-{w}-b"))  # type: ignore[misc]
            assert (known is not None) is both
            await here.free()


async def test_the_whole_chain_is_locked_if_the_policy_says_so(store: OpenStore) -> None:
    """The document's principle instead of its algorithm: ac-dc depends only on adnet, which
    depends on alphavm."""
    for locking, allowed in (("neighbours", True), ("chain", False)):
        here = Spawner([store], policy_of(DEPENDS_ON, locking))
        if locking == "neighbours":
            await spawner([store], policy_of(DEPENDS_ON))
        assert await here.spawn(f"{locking}-1", "alphavm")
        assert await here.spawn(f"{locking}-2", "ac-dc") is allowed
        assert await here.spawn(f"{locking}-3", "deltavm")
        await here.free()


# -- a thousand concurrent spawns


def random_graph(repos: int) -> dict[str, list[str]]:
    chance = random.Random(5)
    names = [f"r{number:03}" for number in range(repos)]
    return {
        name: sorted(chance.sample(names[:at], min(at, chance.randrange(4))))
        for at, name in enumerate(names)
    }


@pytest.fixture
async def two_servers(store_address: str) -> AsyncIterator[list[OpenStore]]:
    """Two servers on PostgreSQL, one on SQLite."""
    async with AsyncExitStack() as stack:
        count = 2 if "://" in store_address else 1
        yield [await stack.enter_async_context(opened(store_address)) for _ in range(count)]


async def test_a_thousand_concurrent_spawns_never_break_the_rules(
    two_servers: list[OpenStore],
) -> None:
    graph = random_graph(100)
    swarms = [f"s{number}" for number in range(8)]
    here = await spawner(two_servers, policy_of(graph), *swarms)
    repos = list(graph)
    wishes = [
        here.spawn(f"t{number}", repos[number % 100], swarms[number % 8], number % len(two_servers))
        for number in range(1000)
    ]
    random.Random(7).shuffle(wishes)
    outcomes = await asyncio.gather(*wishes)
    active = await here.active()
    assert len(active) == outcomes.count(True)
    for one, other in combinations(active, 2):
        assert one not in graph[other], f"{one} and {other}"
        assert other not in graph[one], f"{one} and {other}"
    # As many as possible: each of the others is blocked by one of these.
    for repo in set(graph) - active:
        assert not here.active_policy.graph.can_spawn(repo, active)


# -- taken at spawn, and how they end


async def test_the_spawn_blocking_example_of_the_document(contract: ContractFixture) -> None:
    await contract.works_on("alphavm")
    answers = {name: await contract.can_spawn(name) for name in DEPENDS_ON}
    assert {name for name, one in answers.items() if one.can_spawn} == {
        *("deltavm", "adl", "adl-examples", "deltaos", "ac-dc", "sdk")
    }
    reasons = {name: str(one.reason) for name, one in answers.items()}
    assert "alphavm is a dependency that is being worked on (alphavm)" in reasons["adnet"]
    assert "alphavm is a dependent that is being worked on" in reasons["acdc-core"]
    assert "alphavm is being worked on" in reasons["alphavm"]
    with pytest.raises(RepoBlocked) as refused:
        await contract.spawn("second", "x.py", repo="adnet", submit=True)
    blockers: Any = refused.value.facts["blockers"]
    (blocker,) = blockers
    assert (blocker["repo"], blocker["rule"], blocker["bead_id"]) == (
        "alphavm",
        "no_downstream_while_upstream_active",
        "alphavm",
    )
    assert "second" not in (await contract.rows()).tasks
    with pytest.raises(UnknownRepo):
        await contract.can_spawn("betavm")


async def test_a_repo_given_by_its_path_is_locked_too(
    store_address: str, tmp_path: Path, pushed: tuple[Repo, list[str]]
) -> None:
    async with open_contract(store_address, tmp_path, *pushed) as contract:
        await contract.spawn("by-path", "a.py", repo=str(contract.repo.path))
        # All repos of this policy share one path; the last one is used.
        assert await contract.locked() == {"sdk": "by-path"}


@pytest.mark.requirement("OWN-06")
async def test_a_reader_of_another_swarm_learns_only_that_a_repo_is_locked(
    contract: ContractFixture,
) -> None:
    await contract.spawn("secret-task", "a.py", repo="sdk")
    service, blocked = contract.contract_service, CanSpawnRequest(repo="sdk")
    as_everybody = CURRENT_ACTOR.set(Actor("reader", Role.READ_ONLY, "other", token_id="tok-1"))
    try:
        listed, spawnable = (
            await service.list_repos(ReposRequest()),
            await service.can_spawn(blocked),
        )
    finally:
        CURRENT_ACTOR.reset(as_everybody)
    assert "secret-task" not in f"{listed} {spawnable}"
    [sdk] = [repo for repo in listed.repos if repo["repo"] == "sdk"]
    assert (sdk["locked_by"], sdk["locked_since"] is None) == (None, False)
    assert not spawnable.can_spawn
    assert "secret-task" in str(await service.list_repos(ReposRequest()))


@pytest.mark.requirement("CC-06")
async def test_repos_are_ordered_into_phases_bottom_up(contract: ContractFixture) -> None:
    answer = await contract.contract_service.list_repos(ReposRequest())
    phases: dict[int, set[str]] = {}
    for one in answer.repos:
        phases.setdefault(one["phase"], set()).add(one["repo"])
    assert phases == {
        1: {"acdc-core", "sdk"},
        2: {"alphavm", "deltavm", "adl"},
        3: {"adnet", "alphaos", "deltaos", "adl-examples"},
        4: {"ac-dc"},
    }
    # Parallel within a phase; the next phase waits for its dependencies.
    for repo in ("acdc-core", "sdk"):
        await contract.works_on(repo)
    for repo in phases[2]:
        assert not (await contract.can_spawn(repo)).can_spawn
    await contract.proven("acdc-core")
    for repo in sorted(phases[2]):
        await contract.spawn(repo, f"{repo}.py", repo=repo)


async def test_a_lock_outlives_failure_red_ci_refusal_and_cancellation(
    contract: ContractFixture,
) -> None:
    await contract.works_on("alphavm", "w")
    await contract.failed("alphavm")
    assert await contract.locked() == {"alphavm": "alphavm"}
    await contract.retry("alphavm")
    await contract.start("w", "alphavm")
    sha = await contract.pushes("alphavm")
    await contract.ci_says(runs(sha, test="failure"))
    assert await contract.locked() == {"alphavm": "alphavm"}
    sha = await contract.pushes("alphavm", 1)
    await contract.ci_says(runs(sha))
    await contract.refuse("scope")
    assert await contract.locked() == {"alphavm": "alphavm"}
    await contract.cancel("alphavm")
    assert await contract.locked() == {"alphavm": "alphavm"}
    assert not (await contract.can_spawn("adnet")).can_spawn
    # The operator has checked it.
    assert (await contract.free("alphavm")).changed
    assert not (await contract.free("alphavm")).changed
    assert (await contract.events("repo_released"))[0]["reason"].startswith("by the operator: ")
    assert (await contract.can_spawn("adnet")).can_spawn


async def test_accepted_work_releases_the_lock(contract: ContractFixture) -> None:
    await contract.works_on("alphavm")
    await contract.proven("alphavm")
    assert await contract.locked() == {}
    assert (await contract.can_spawn("adnet")).can_spawn


async def test_a_task_cancelled_before_work_begins_releases_its_lock(
    contract: ContractFixture,
) -> None:
    await contract.spawn("open", "a.py", repo="sdk")
    await contract.cancel("open")
    assert await contract.locked() == {}
    await contract.register("w")
    await contract.spawn("offered", "b.py", repo="sdk", submit=True)
    assert (await contract.attempt("offered")).state is WorkerState.ASSIGNED
    await contract.cancel("offered")
    assert await contract.locked() == {}
    await contract.register("v")
    await contract.spawn("taken-over", "b.py", repo="sdk", submit=True)
    offered_to = (await contract.attempt("taken-over")).worker
    assert (await contract.given("w" if offered_to == "v" else "v")).epoch == 2
    await contract.cancel("taken-over")
    assert await contract.locked() == {}
    await contract.works_on("sdk", "w", "begun")
    await contract.cancel("begun")
    assert await contract.locked() == {"sdk": "begun"}


async def test_a_repo_is_not_released_while_a_worker_is_active(contract: ContractFixture) -> None:
    await contract.works_on("sdk", "w")
    with pytest.raises(RepoBlocked, match="sdk is active"):
        await contract.free("sdk")
    await contract.failed("sdk")
    assert (await contract.free("sdk")).changed
    # Whoever continues the task needs the lock again, and the usual rules apply.
    for again in (contract.retry, contract.submit):
        with pytest.raises(RepoBlocked, match="no longer has a lock on sdk"):
            await again("sdk")
    await contract.spawn("other", "o.py", repo="sdk")
    with pytest.raises(RepoBlocked):
        await contract.spawn("sdk", repo="sdk")
    await contract.gives_up("other", "sdk")
    await contract.spawn("sdk", repo="sdk", submit=True)
    assert await contract.retry("sdk") == "active"


async def test_a_task_without_its_lock_cannot_be_claimed(contract: ContractFixture) -> None:
    """A claim on a task that was never handed out starts an attempt, like any other start."""
    await contract.spawn("sdk", repo="sdk")
    assert (await contract.free("sdk")).changed
    with pytest.raises(RepoBlocked, match="no longer has a lock on sdk"):
        await contract.claim("sdk", name="w", commit=contract.commits[0])
    assert await contract.status("sdk") == "open"


@pytest.mark.requirement("CC-09", "CC-10")
async def test_ci_context_is_refused_at_spawn(contract: ContractFixture) -> None:
    """embedding_ci_context_at_spawn: also in parts that the prompt omits."""
    with pytest.raises(ContractViolations) as refused:
        await contract.spawn(
            "t",
            repo="sdk",
            subtask_description="ask https://forge.example/alpha/sdk/actions for the runs",
        )
    assert refused.value.facts["forbidden"] == "embedding_ci_context_at_spawn"
    assert await contract.locked() == {}


@pytest.mark.requirement("CC-10", "OWN-15")
async def test_ci_context_is_refused_in_an_amendment(contract: ContractFixture) -> None:
    await contract.spawn("t", repo="sdk")
    for criterion, is_allowed in (
        ("see https://forge.example/alpha/sdk/actions", False),
        ("It works as the specification says", True),
    ):
        amendment = AmendHandoffRequest(
            swarm_id=contract.swarm_id, bead_id="t", success_criteria=[criterion], reason="r"
        )
        with nullcontext() if is_allowed else pytest.raises(ContractViolations):
            await contract.handoff_service.amend_handoff(amendment)
    assert (await contract.show_handoff("t")).version == 2


@pytest.mark.requirement("CC-01", "CC-05")
async def test_work_must_go_to_the_branch_of_the_policy(contract: ContractFixture) -> None:
    """If accepted on another branch, the repo would be free and green without the work."""
    with pytest.raises(InvalidRequest) as refused:
        await contract.spawn("t", repo="sdk", branch="side")
    assert refused.value.field == "branch"
    await contract.works_on("sdk")
    side = contract.repo.git(
        "commit-tree", "-p", contract.repo.base, "-m", "x", f"{contract.repo.base}^{{tree}}"
    )
    with pytest.raises(InvalidRequest, match="is not on the branch task"):
        await contract.says("sdk", f"PUSHED_TO_CI: sdk commit {side[:12]} - CI run #1")
    assert await contract.milestone("sdk") == "WORKING"


async def test_the_operator_may_release_a_red_repo(
    contract: ContractFixture,
) -> None:
    await contract.works_on("alphavm")
    sha = await contract.pushes("alphavm", 1)
    await contract.ci_says(runs(sha, test="failure"))
    await contract.cancel("alphavm")
    assert not (await contract.can_spawn("adnet")).can_spawn
    assert (await contract.free("alphavm")).changed
    assert (await contract.can_spawn("adnet")).can_spawn
