"""A verifier that cannot look at a claim leaves it to others. On both stores."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from shiftboss.coordinator.duties.claim_watcher import ClaimWatcher
from shiftboss.errors import IllegalTransition
from shiftboss.protocol.claims.verdicts import Verdict, VerificationJob
from shiftboss.protocol.states import WorkerState
from shiftboss.rules.access.actors import Actor
from shiftboss.rules.access.roles import Role
from shiftboss.rules.claims.claim_passes import ALIVE_MS, FIRST_PAUSE_MS, NOBODY_MS
from shiftboss.rules.claims.claims import VERIFIER_SECONDS
from shiftboss.store.current_actor import CURRENT_ACTOR
from tests.conformance.current_actor import acting_as
from tests.conformance.handoffs.handoff_fixtures import (
    HandoffFixture,
    accepted,
    open_handoffs,
    refused,
)
from tests.repos import Repo
from tests.verifying import LocalEvidence
from tests.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("HO-04", "HO-05")]

NO_FOLDER = "There is no folder /elsewhere"


def without_commit(job: VerificationJob) -> Verdict:
    """The verifier has a repository at the path, and not the commit."""
    text = "abcdef1 is not in the repository"
    return refused(job, "commit", commit=None, tree=None, missing=text)


async def claimed(handoffs: HandoffFixture, *verifiers: str) -> None:
    """A claim, and verifiers that have asked for claims before."""
    for name in verifiers:
        assert await handoffs.take(name) is None
    await handoffs.given_out("t", "w")
    await handoffs.claim("t")


async def watch(handoffs: HandoffFixture) -> None:
    coordinator = handoffs.coordinator
    await ClaimWatcher(coordinator.store, handoffs.clock, coordinator.hub).run_once()


async def test_a_claim_goes_to_another_verifier_without_a_violation(
    handoffs: HandoffFixture,
) -> None:
    await claimed(handoffs, "blind", "seeing")
    assert await handoffs.unable(await handoffs.taken("blind"), "blind", NO_FOLDER) == "waiting"
    assert await handoffs.take("blind") is None, "it does not take it again at once"
    job = await handoffs.taken("seeing")
    assert await handoffs.report(job, accepted(job), "seeing") == "accepted"
    assert await handoffs.events("claim_refused") == []
    assert await handoffs.events("claim_escalated") == []
    (passed,) = await handoffs.events("claim_passed")
    assert (passed["verifier"], passed["reason"]) == ("blind", NO_FOLDER)


async def test_passing_on_a_claim_is_no_failed_try(handoffs: HandoffFixture) -> None:
    """However often: the claim still has all its tries afterwards."""
    await claimed(handoffs, *(f"blind-{number}" for number in range(5)), "seeing")
    for number in range(5):
        job = await handoffs.taken(f"blind-{number}")
        assert await handoffs.unable(job, f"blind-{number}") == "waiting"
    claim = await handoffs.last_claim("t")
    assert (claim.state, claim.tries) == ("waiting", 0)
    assert (await handoffs.attempt("t")).refusals == 0


async def test_a_verifier_that_has_passed_looks_again_after_longer_and_longer_pauses(
    handoffs: HandoffFixture,
) -> None:
    await claimed(handoffs, "blind")
    pause_ms = FIRST_PAUSE_MS
    for _ in range(3):
        assert await handoffs.unable(await handoffs.taken("blind"), "blind") == "waiting"
        handoffs.clock.now_ms += pause_ms - 1
        assert await handoffs.take("blind") is None
        handoffs.clock.now_ms += 1
        pause_ms *= 2
    job = await handoffs.taken("blind")
    assert await handoffs.report(job, accepted(job), "blind") == "accepted"
    assert len(await handoffs.events("claim_passed")) == 1, "one reason is told once"


async def test_a_waiting_verifier_is_woken_by_a_claim_that_another_passes_on(
    handoffs: HandoffFixture,
) -> None:
    await claimed(handoffs, "blind")
    job = await handoffs.taken("blind")
    waiting = asyncio.create_task(handoffs.take("seeing", wait_ms=600_000))
    await eventually(lambda: handoffs.claim_service._takers, "a verifier waits")
    await handoffs.unable(job, "blind")
    async with asyncio.timeout(30):
        found = await waiting
    assert found is not None


# -- when nobody can look


async def test_a_claim_that_every_living_verifier_has_passed_on_waits_for_a_person(
    handoffs: HandoffFixture,
) -> None:
    await claimed(handoffs, "one", "other")
    await handoffs.unable(await handoffs.taken("one"), "one", NO_FOLDER)
    assert await handoffs.events("claim_escalated") == []
    await handoffs.unable(await handoffs.taken("other"), "other", "it is a shallow clone")
    (escalated,) = await handoffs.events("claim_escalated")
    assert NO_FOLDER in escalated["reason"]
    assert "other: it is a shallow clone" in escalated["reason"]
    assert (await handoffs.attempt("t")).state is WorkerState.VERIFYING
    assert (await handoffs.last_claim("t")).state == "waiting"
    # It is told once, though they look again.
    handoffs.clock.now_ms += FIRST_PAUSE_MS
    await handoffs.unable(await handoffs.taken("one"), "one", NO_FOLDER)
    assert len(await handoffs.events("claim_escalated")) == 1


async def test_an_escalated_claim_is_accepted_when_a_verifier_can_look(
    handoffs: HandoffFixture,
) -> None:
    await claimed(handoffs, "blind")
    await handoffs.unable(await handoffs.taken("blind"), "blind")
    job = await handoffs.taken("newcomer")
    assert await handoffs.report(job, accepted(job), "newcomer") == "accepted"
    assert await handoffs.status("t") == "done"


async def test_verifiers_look_again_at_once_after_a_retry(handoffs: HandoffFixture) -> None:
    await claimed(handoffs, "blind")
    await handoffs.unable(await handoffs.taken("blind"), "blind")
    waiting = asyncio.create_task(handoffs.take("blind", wait_ms=600_000))
    await eventually(lambda: handoffs.claim_service._takers, "it waits")
    answer = await handoffs.retry_claim("t")
    assert (answer.claim_id, answer.state, answer.verifiers) == (1, "waiting", ["blind"])
    async with asyncio.timeout(30):
        job = await waiting
    assert job is not None
    # If nothing has changed, a person is told again.
    await handoffs.unable(job, "blind")
    assert len(await handoffs.events("claim_escalated")) == 2


async def test_a_task_without_an_open_claim_cannot_be_looked_at_again(
    handoffs: HandoffFixture,
) -> None:
    await handoffs.finished("t")
    with pytest.raises(IllegalTransition, match="t has no claim that waits for a verifier"):
        await handoffs.retry_claim("t")


async def test_a_verifier_that_is_gone_is_not_waited_for(handoffs: HandoffFixture) -> None:
    await claimed(handoffs, "blind", "gone")
    await handoffs.unable(await handoffs.taken("blind"), "blind")
    handoffs.clock.now_ms += ALIVE_MS - 1000
    await watch(handoffs)
    assert await handoffs.events("claim_escalated") == [], "both may still be there"
    handoffs.clock.now_ms += 2000
    await watch(handoffs)
    assert len(await handoffs.events("claim_escalated")) == 1


async def test_a_claim_that_no_verifier_comes_for_waits_for_a_person(
    handoffs: HandoffFixture,
) -> None:
    await claimed(handoffs)
    handoffs.clock.now_ms += NOBODY_MS - 1
    await watch(handoffs)
    assert await handoffs.events("claim_escalated") == []
    handoffs.clock.now_ms += 1
    await watch(handoffs)
    (escalated,) = await handoffs.events("claim_escalated")
    assert escalated["reason"] == "no verifier has asked for it"


async def test_a_busy_verifier_is_waited_for(handoffs: HandoffFixture) -> None:
    """A long queue is nothing for a person."""
    await handoffs.spawn("first")
    await handoffs.claim("first")
    job = await handoffs.taken("busy")
    await claimed(handoffs)
    for _ in range(6):
        handoffs.clock.now_ms += VERIFIER_SECONDS * 1000 - 1
        assert await handoffs.renew(job, "busy") is True
        await watch(handoffs)
    assert await handoffs.events("claim_escalated") == []


async def test_a_stopped_verifier_costs_the_claim_nothing(handoffs: HandoffFixture) -> None:
    """Three restarts of a verifier refused honest work once."""
    await claimed(handoffs)
    for _ in range(5):
        assert await handoffs.released(await handoffs.taken("v"), "v") == "waiting"
    assert await handoffs.events("claim_escalated") == []
    job = await handoffs.taken("v")
    assert await handoffs.report(job, accepted(job), "v") == "accepted"


# -- what is only missing here


async def test_a_missing_commit_is_refused_by_the_only_verifier(handoffs: HandoffFixture) -> None:
    await claimed(handoffs, "only")
    job = await handoffs.taken("only")
    assert await handoffs.report(job, without_commit(job), "only") == "refused"
    assert "commit failed" in (await handoffs.refusal_of("t")).detail


async def test_a_commit_that_one_verifier_lacks_is_looked_for_by_the_others(
    handoffs: HandoffFixture,
) -> None:
    await claimed(handoffs, "stale", "fresh")
    job = await handoffs.taken("stale")
    assert await handoffs.report(job, without_commit(job), "stale") == "waiting"
    job = await handoffs.taken("fresh")
    assert await handoffs.report(job, accepted(job), "fresh") == "accepted"


async def test_a_commit_that_no_verifier_finds_is_refused(handoffs: HandoffFixture) -> None:
    """The last one has no repository at all; what the first one said counts then."""
    await claimed(handoffs, "stale", "blind")
    job = await handoffs.taken("stale")
    assert await handoffs.report(job, without_commit(job), "stale") == "waiting"
    assert await handoffs.unable(await handoffs.taken("blind"), "blind") == "refused"
    assert "commit failed" in (await handoffs.refusal_of("t")).detail
    assert (await handoffs.attempt("t")).state is WorkerState.EXECUTING


async def test_the_refusal_of_a_missing_commit_does_not_wait_for_a_verifier_that_is_gone(
    handoffs: HandoffFixture,
) -> None:
    await claimed(handoffs, "stale", "gone")
    job = await handoffs.taken("stale")
    await handoffs.report(job, without_commit(job), "stale")
    handoffs.clock.now_ms += ALIVE_MS + 1
    await watch(handoffs)
    assert (await handoffs.last_claim("t")).state == "refused"


# -- what is shown


async def test_open_claims_name_their_verifier_or_why_they_wait(handoffs: HandoffFixture) -> None:
    there = await handoffs.in_swarm("swarm-2")
    await there.spawn("u")
    await there.claim("u")
    handoffs.clock.now_ms += 1
    await claimed(handoffs)
    (claim,) = (await there.open_claims()).claims
    assert (claim.bead_id, claim.verifier, claim.why) == ("u", None, "no verifier is there")
    await there.taken("one")
    await handoffs.unable(await handoffs.taken("one"), "one", NO_FOLDER)
    listed = await handoffs.open_claims(all_swarms=True)
    assert [verifier.name for verifier in listed.verifiers] == ["one"]
    first, second = listed.claims
    assert (first.swarm_id, first.bead_id, first.state, first.verifier, first.why) == (
        "swarm-2",
        "u",
        "taken",
        "one",
        None,
    )
    assert first.taken_at == handoffs.clock.now_ms
    assert second.why == f"no verifier can verify it: one: {NO_FOLDER}"
    assert second.escalated_at == handoffs.clock.now_ms
    (passed,) = second.passes
    assert (passed.verifier, passed.times) == ("one", 1)
    assert passed.again_at == handoffs.clock.now_ms + FIRST_PAUSE_MS
    shown = (await handoffs.show_handoff("t")).last_claim
    assert shown is not None
    assert (shown["verifier"], shown["passes"][0]["reason"]) == (None, NO_FOLDER)


# -- two servers


async def test_of_two_servers_the_one_with_the_repository_verifies(
    postgres_url: str, tmp_path: Path
) -> None:
    """Both take claims as they come. Every honest claim is accepted, none refused."""
    repo = Repo(tmp_path / "repo")
    seeing = LocalEvidence(tmp_path / "seeing", str(repo.path))
    blind = LocalEvidence(tmp_path / "blind", None)
    looked, verify = [], blind.verify

    async def look_elsewhere(job: VerificationJob) -> Verdict:
        looked.append(job.bead_id)
        return await verify(job.model_copy(update={"repo": str(tmp_path / "not-here")}))

    blind.verify = look_elsewhere
    async with open_handoffs(postgres_url, blind, repo, verifies=True) as there:
        await there.spawn("a", "src/", repo=str(repo.path))
        commit = repo.commit("work", {"src/a.py": "x = 1\n"})
        call = await there.waiting("a", commit=commit)
        await eventually(lambda: looked == ["a"], "the server without it has looked")
        async with open_handoffs(postgres_url, seeing, repo, there.clock, verifies=True) as here:
            async with asyncio.timeout(30):
                assert (await call).commit == commit
            assert await here.events("claim_refused") == []
            (passed,) = await here.events("claim_passed")
            assert passed["reason"] == f"There is no folder {tmp_path / 'not-here'}"


@pytest.mark.requirement("OWN-06")
async def test_a_reader_of_one_swarm_sees_no_claims_of_others(handoffs: HandoffFixture) -> None:
    await claimed(handoffs)
    caller = CURRENT_ACTOR.set(Actor("reader", Role.READ_ONLY, swarm_id="another"))
    try:
        assert (await handoffs.open_claims(all_swarms=True)).claims == []
    finally:
        CURRENT_ACTOR.reset(caller)
    assert len((await handoffs.open_claims(all_swarms=True)).claims) == 1


def verifier(name: str, worker: str | None = None) -> Actor:
    return Actor(name, Role.VERIFIER, worker=worker, token_id=name)


async def test_a_token_cannot_settle_the_claim_that_another_token_has_taken(
    handoffs: HandoffFixture,
) -> None:
    await claimed(handoffs)
    with acting_as(verifier("vera")):
        job = await handoffs.taken("machine-1")
    for other, limit in (("mallory", None), ("machine-1", "machine-1")):
        with acting_as(verifier(other, limit)):
            assert not await handoffs.renew(job, "machine-1")
            assert await handoffs.report(job, accepted(job), "machine-1") == "void"
    (shown,) = (await handoffs.open_claims()).claims
    assert shown.verifier == "vera/machine-1"
    with acting_as(verifier("vera")):
        assert await handoffs.renew(job, "machine-1")
        assert await handoffs.report(job, accepted(job), "machine-1") == "accepted"
