"""Verifiers come and go; every claim gets its verdict. On both stores."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from shiftboss.coordinator.duties.verification import Verification
from shiftboss.protocol.claims.verdicts import Verdict, VerificationJob
from shiftboss.protocol.states import WorkerState
from shiftboss.rules.claims.claims import VERIFIER_SECONDS
from tests.conformance.bus.bus_fixtures import StillClock
from tests.conformance.handoffs.handoff_fixtures import HandoffFixture, accepted, open_handoffs
from tests.repos import Repo
from tests.verifying import LocalEvidence
from tests.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("HO-04")]


async def test_the_job_contains_everything_to_be_checked(handoffs: HandoffFixture) -> None:
    spawned = await handoffs.spawn("t", "a.py", branch="task", target="main")
    await handoffs.claim("t", commit="abcdef1", files_touched=["a.py"], summary="believe me")
    job = await handoffs.taken()
    assert job.model_dump(include={"bead_id", "epoch", "claim_id", "contract_version"}) == {
        "bead_id": "t",
        "epoch": 1,
        "claim_id": 1,
        "contract_version": 1,
    }
    assert (job.repo, job.base_commit) == (str(handoffs.repo.path), handoffs.repo.base)
    assert (job.branch, job.target, job.commit) == ("task", "main", "abcdef1")
    assert job.contract.model_dump() == spawned.handoff["contract"]
    assert job.contract_hash == spawned.contract_hash
    # The verifier gets only the commit and the files from the worker.
    assert "believe me" not in job.model_dump_json()


async def test_the_job_names_the_commits_that_have_a_receipt(
    handoffs: HandoffFixture, tmp_path: Path
) -> None:
    """Only those of the same repository, newest first; none without a target."""
    elsewhere = Repo(tmp_path / "elsewhere")
    for number, task in enumerate(("old", "new")):
        await handoffs.plan(task)
        await handoffs.claim(task, commit=f"{number}" * 40)
        await handoffs.accept()
        handoffs.clock.now_ms += 1
    accounted = ["1" * 40, "0" * 40]
    for task, found, members in (
        ("t", accounted, {"target": "main"}),
        ("other", [], {"target": "main", "repo": str(elsewhere.path)}),
        ("alone", [], {}),
    ):
        await handoffs.spawn(task, **members)
        await handoffs.claim(task)
        assert (await handoffs.taken()).accounted_commits == found


async def test_a_task_that_a_worker_spawned_accounts_for_nothing(
    handoffs: HandoffFixture,
) -> None:
    """A worker could write itself an easy contract, and get a receipt for weakening a test. The
    operator can take over the contract, and scope that is granted changes nothing."""
    await handoffs.spawn("easy", "tests/")
    await handoffs.claim("easy", commit="1" * 40)
    await handoffs.accept()
    handoffs.clock.now_ms += 1
    await handoffs.spawn("agreed")
    await handoffs.plan("agreed")
    await handoffs.claim("agreed", commit="2" * 40)
    await handoffs.accept()
    handoffs.clock.now_ms += 1
    await handoffs.spawn("replaced")
    await handoffs.replace("replaced", "b.py")
    await handoffs.claim("replaced", commit="3" * 40)
    await handoffs.accept()
    await handoffs.spawn("real", target="main")
    await handoffs.claim("real")
    assert (await handoffs.taken()).accounted_commits == ["3" * 40, "2" * 40]


async def test_claims_are_taken_once_oldest_first(handoffs: HandoffFixture) -> None:
    there = await handoffs.in_swarm("swarm-2")
    for bus, name in ((there, "first"), (handoffs, "second"), (there, "third")):
        await bus.spawn(name)
        await bus.claim(name)
        handoffs.clock.now_ms += 1
    jobs = await asyncio.gather(*(handoffs.take(f"v{number}") for number in range(5)))
    found = [job.bead_id for job in jobs if job is not None]
    assert sorted(found) == ["first", "second", "third"]
    handoffs.clock.now_ms += VERIFIER_SECONDS * 1000 + 1
    assert [(await handoffs.taken()).bead_id for _ in range(3)] == ["first", "second", "third"]


async def test_every_waiting_verifier_is_notified_of_a_claim(handoffs: HandoffFixture) -> None:
    waiting = [
        asyncio.create_task(handoffs.take(f"v{number}", wait_ms=600_000)) for number in range(3)
    ]
    takers = handoffs.claim_service._takers
    await eventually(lambda: len(takers) == 3, "three verifiers wait")
    names = ("a", "b", "c")
    await asyncio.gather(*(handoffs.spawn(name) for name in names))
    await asyncio.gather(*(handoffs.claim(name) for name in names))
    async with asyncio.timeout(30):
        jobs = await asyncio.gather(*waiting)
    assert sorted(job.bead_id for job in jobs if job) == ["a", "b", "c"]


async def test_a_claim_on_one_server_wakes_a_verifier_on_another(
    postgres_url: str, evidence: LocalEvidence, repo: Repo
) -> None:
    clock = StillClock()
    async with (
        open_handoffs(postgres_url, evidence, repo, clock) as here,
        open_handoffs(postgres_url, evidence, repo, clock) as there,
    ):
        waiting = asyncio.create_task(there.take(wait_ms=600_000))
        await eventually(lambda: there.claim_service._takers, "a verifier waits")
        await here.spawn("t")
        call = await here.waiting("t")
        async with asyncio.timeout(30):
            job = await waiting
            assert job is not None
            await there.report(job, accepted(job))
            assert (await call).success is True


async def test_a_lost_verifier_is_replaced(handoffs: HandoffFixture) -> None:
    await handoffs.spawn("t")
    await handoffs.claim("t")
    job = await handoffs.taken("lost")
    handoffs.clock.now_ms += VERIFIER_SECONDS * 1000 - 1
    assert await handoffs.take("next") is None
    assert await handoffs.renew(job, "lost") is True  # still there
    handoffs.clock.now_ms += VERIFIER_SECONDS * 1000 - 1
    assert await handoffs.take("next") is None
    handoffs.clock.now_ms += 1
    again = await handoffs.taken("next")
    assert (again.claim_id, again.epoch) == (job.claim_id, job.epoch)
    assert await handoffs.renew(job, "lost") is False
    assert await handoffs.report(job, accepted(job), "lost") == "void"
    assert await handoffs.report(again, accepted(again), "next") == "accepted"


async def test_unreadable_evidence_is_tried_three_times_and_proves_nothing(
    handoffs: HandoffFixture,
) -> None:
    await handoffs.given_out("t", "w")
    await handoffs.claim("t")
    for pause_ms in (2000, 4000):
        assert await handoffs.not_seen(await handoffs.taken()) == "waiting"
        handoffs.clock.now_ms += pause_ms - 1
        assert await handoffs.take() is None
        handoffs.clock.now_ms += 1
    assert await handoffs.not_seen(await handoffs.taken()) == "refused"
    refusal = await handoffs.refusal_of("t")
    assert "The evidence could not be read: the disk is gone" in refusal.detail
    assert (await handoffs.attempt("t")).state is WorkerState.EXECUTING
    # A new claim has all its tries.
    await handoffs.claim("t")
    assert await handoffs.not_seen(await handoffs.taken()) == "waiting"


async def test_a_waiting_verifier_finds_a_postponed_claim(
    store_address: str, evidence: LocalEvidence, repo: Repo
) -> None:
    """No event announces it, only passing time; so time passes here."""
    clock = _Running()
    async with open_handoffs(store_address, evidence, repo, clock) as handoffs:
        await handoffs.spawn("t")
        await handoffs.claim("t")
        assert await handoffs.not_seen(await handoffs.taken()) == "waiting"
        clock.now_ms += 1_900
        async with asyncio.timeout(30):
            job = await handoffs.take(wait_ms=600_000)
        assert job is not None


class _Running(StillClock):
    """Continues by itself."""

    def __init__(self) -> None:
        super().__init__()
        self._began = asyncio.get_event_loop().time()

    def __call__(self) -> int:
        return self.now_ms + round((asyncio.get_event_loop().time() - self._began) * 1000)


# -- the server's own verifier


async def test_a_claim_is_verified_in_process_and_accepted(
    store_address: str, tmp_path: Path
) -> None:
    repo = Repo(tmp_path / "repo")
    evidence = LocalEvidence(tmp_path / "state", str(repo.path))
    async with open_handoffs(store_address, evidence, repo, verifies=True) as handoffs:
        await handoffs.spawn("t", "src/auth/")
        refusal = await handoffs.refusal_of("t", wait_ms=60_000, commit=repo.base)
        assert refusal.detail.startswith("Contract violations detected:\n")
        commit = repo.commit("work", {"src/auth/login.py": "def login():\n    return 1\n"})
        answer = await handoffs.complete("t", wait_ms=60_000)
        assert (answer.success, answer.commit) == (True, commit)


class _Stuck(LocalEvidence):
    """Every verification takes forever until it is released."""

    def __init__(self, folder: Path, own_repo: str) -> None:
        super().__init__(folder, own_repo)
        self.looking: list[int] = []
        self.go = asyncio.Event()
        self.verify = self._accept

    async def _accept(self, job: VerificationJob) -> Verdict:
        self.looking.append(job.claim_id)
        await self.go.wait()
        return accepted(job)


async def test_a_claim_that_was_being_verified_is_verified_again_after_a_restart(
    sqlite_path: str, tmp_path: Path, repo: Repo
) -> None:
    """Immediately, although the clock stands still: the server knows that it was its own."""
    clock = StillClock()
    first = _Stuck(tmp_path / "one", str(repo.path))
    async with open_handoffs(sqlite_path, first, repo, clock, verifies=True) as handoffs:
        await handoffs.spawn("t")
        await handoffs.claim("t", summary="s")
        await eventually(lambda: first.looking == [1], "it is being verified")
        assert (await handoffs.last_claim("t")).state == "taken"
    second = _Stuck(tmp_path / "two", str(repo.path))
    second.go.set()
    async with open_handoffs(sqlite_path, second, repo, clock, verifies=True) as handoffs:
        answer = await handoffs.complete("t", wait_ms=60_000, summary="s")
        assert (answer.success, answer.claim_id, second.looking) == (True, 1, [1])
        assert (await handoffs.kinds("t")).count("task_done") == 1


async def test_another_server_verifies_at_once_what_a_server_that_stops_has_taken(
    postgres_url: str, tmp_path: Path, repo: Repo
) -> None:
    """The clock stands still, so nobody waits until the first one counts as lost."""
    clock = StillClock()
    first = _Stuck(tmp_path / "one", str(repo.path))
    second = _Stuck(tmp_path / "two", str(repo.path))
    second.go.set()
    async with open_handoffs(postgres_url, first, repo, clock, verifies=True) as handoffs:
        await handoffs.spawn("t")
        await handoffs.claim("t", summary="s")
        await eventually(lambda: first.looking == [1], "it is being verified")
    async with open_handoffs(postgres_url, second, repo, clock, verifies=True) as handoffs:
        answer = await handoffs.complete("t", wait_ms=60_000, summary="s")
        assert (answer.success, second.looking) == (True, [1])
        assert len((await handoffs.open_claims()).verifiers) == 1


async def test_the_servers_own_verifier_respects_its_concurrency_limit(
    store_address: str, tmp_path: Path, repo: Repo
) -> None:
    """The limit is two here: the third has to wait, however long the others take."""
    evidence = _Stuck(tmp_path / "state", str(repo.path))
    async with open_handoffs(store_address, evidence, repo) as handoffs:
        for name in ("a", "b", "c"):
            await handoffs.spawn(name)
            await handoffs.claim(name)
        store, hub = handoffs.coordinator.store, handoffs.coordinator.hub
        duty = Verification(
            store, handoffs.clock, hub, handoffs.claim_service, evidence, "v", at_once=2
        )
        running = asyncio.create_task(duty.run())
        try:
            await eventually(lambda: len(evidence.looking) == 2, "two are looked at")
            await duty.run_once()
            found = [(await handoffs.last_claim(name)).state for name in ("a", "b", "c")]
            assert sorted(found) == ["taken", "taken", "waiting"]
            evidence.go.set()
            for name in ("a", "b", "c"):
                assert (await handoffs.complete(name, wait_ms=60_000)).success is True
            assert len(evidence.looking) == 3
        finally:
            running.cancel()
            await asyncio.wait((running,))
