"""Every way to say "done" goes through the claim when there is a handoff. On both stores."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from shiftboss.errors import (
    ContractViolations,
    IllegalTransition,
    PacketFinished,
    TaskEnded,
    UnknownHandoff,
)
from shiftboss.protocol.bus import DoneAnswer, DoneRequest
from shiftboss.protocol.handoff_requests import DecideScopeRequest
from shiftboss.protocol.messages import CompleteMessage, MessageType
from shiftboss.protocol.packets import (
    CompleteAnswer,
    CompleteRequest,
    ErrorRequest,
    ProgressRequest,
    RegisterRequest,
)
from shiftboss.protocol.questions import MessageAnswer
from shiftboss.protocol.states import WorkerState
from tests.conformance.handoffs.handoff_fixtures import COMMIT, HandoffFixture, accepted, refused
from tests.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("HO-04")]

PACKETS = "packets"
MOMENT = datetime(2026, 1, 5, tzinfo=UTC)


async def verdict_of(
    handoffs: HandoffFixture, call: asyncio.Future[Any], *, good: bool = True
) -> dict[str, Any]:
    """Verify the claim that a call made; returns the job of the verifier."""
    job = await handoffs.take(wait_ms=10_000)
    assert job is not None
    assert not call.done()
    await handoffs.report(job, accepted(job) if good else refused(job))
    await eventually(call.done, "the call is answered")
    return job.model_dump()


# -- worker_done


def done(
    handoffs: HandoffFixture, key: str | None = None, **members: Any
) -> asyncio.Future[DoneAnswer]:
    request = DoneRequest(bead_id="t", **members)
    return asyncio.ensure_future(handoffs.bus_service.worker_done(request, key))


async def test_worker_done_is_a_claim_if_there_is_a_handoff(handoffs: HandoffFixture) -> None:
    epoch = await handoffs.given_out("t", "w")
    call = done(handoffs, name="w", epoch=epoch, commit=COMMIT, summary="s")
    job = await verdict_of(handoffs, call, good=False)
    assert job["commit"] == COMMIT
    with pytest.raises(ContractViolations):
        await call
    assert await handoffs.status("t") == "active"

    call = done(handoffs, key="k", name="w", epoch=epoch, summary="mended")
    await verdict_of(handoffs, call)
    answer = await call
    assert (answer.success, answer.status) == (True, "accepted")
    assert answer.receipt_id == (await handoffs.receipt("t"))["receipt_id"]
    assert await done(handoffs, key="k", name="w", epoch=epoch, summary="mended") == answer
    with pytest.raises(TaskEnded):
        await done(handoffs, key="other", name="w", epoch=epoch)


async def test_worker_done_without_a_handoff_completes_the_task(handoffs: HandoffFixture) -> None:
    await handoffs.register("w")
    await handoffs.add_and_submit("t")
    await handoffs.start("w", "t")
    answer = await handoffs.bus_service.worker_done(
        DoneRequest(bead_id="t", commit=COMMIT, summary="s")
    )
    assert answer.model_dump(exclude_none=True) == {"success": True, "bead_id": "t"}
    assert await handoffs.take() is None
    with pytest.raises(UnknownHandoff):
        await handoffs.complete("t")


# -- the COMPLETE message


async def say_complete(handoffs: HandoffFixture, key: str | None = None) -> MessageAnswer:
    message = CompleteMessage(
        type=MessageType.COMPLETE,
        worker_id="w",
        timestamp=MOMENT,
        payload={},
        task_id="t",
        files_created=["a.py"],
        files_modified=["b.py"],
        verification_passed=True,
        verification_output="4 passed",
    )
    return await handoffs.bus_service.receive(message, handoffs.swarm_id, key)


async def test_a_complete_message_is_a_claim_if_there_is_a_handoff(
    handoffs: HandoffFixture,
) -> None:
    await handoffs.given_out("t", "w")
    answer = await say_complete(handoffs, "k1")
    assert (answer.state, answer.claim_id, answer.lease_expires_at) == ("verifying", 1, None)
    assert (await say_complete(handoffs, "k1")).claim_id == 1
    assert (await say_complete(handoffs)).claim_id == 1  # the same content
    job = await handoffs.refuse()
    assert (job.commit, job.files_touched) == (None, ["a.py", "b.py"])
    # A late repeat returns the first claim; the same content is a new claim.
    again = await say_complete(handoffs, "k1")
    assert (again.state, again.claim_id) == ("verifying", 1)
    assert (await say_complete(handoffs, "k2")).claim_id == 2
    await handoffs.accept()
    assert await handoffs.status("t") == "done"
    assert (await say_complete(handoffs, "k2")).claim_id == 2
    assert await handoffs.take() is None


async def test_a_complete_message_without_a_handoff_completes_the_task(
    handoffs: HandoffFixture,
) -> None:
    await handoffs.register("w")
    await handoffs.add_and_submit("t")
    await handoffs.start("w", "t")
    answer = await say_complete(handoffs)
    assert (answer.state, answer.claim_id) == ("complete", None)
    assert await handoffs.status("t") == "done"


# -- packets


def register(packet_id: int = 1) -> RegisterRequest:
    return RegisterRequest(packet_id=packet_id, packet_name="p", tasks_total=1, worktree="/w")


def complete(commit: str = "abcdef0") -> CompleteRequest:
    return CompleteRequest(packet_id=1, final_commit=commit, tests_passed=True, review_passed=True)


def progress(done: int = 1) -> ProgressRequest:
    return ProgressRequest(
        packet_id=1,
        task_id="s",
        task_name="Step",
        status="completed",
        tasks_completed=done,
        tasks_total=1,
    )


async def packets_of(handoffs: HandoffFixture) -> HandoffFixture:
    there = await handoffs.in_swarm(PACKETS)
    await there.spawn("packet-1", "a.py")
    await handoffs.coordinator.swarms.register(PACKETS, register())
    return there


def completing(handoffs: HandoffFixture, commit: str = "abcdef0") -> asyncio.Task[CompleteAnswer]:
    return asyncio.create_task(handoffs.coordinator.swarms.complete(PACKETS, complete(commit)))


async def test_a_packet_with_a_handoff_is_complete_once_its_claim_is_accepted(
    handoffs: HandoffFixture,
) -> None:
    there = await packets_of(handoffs)
    await handoffs.coordinator.swarms.progress(PACKETS, progress())
    call = completing(handoffs)
    job = await verdict_of(there, call, good=False)
    assert (job["bead_id"], job["commit"]) == ("packet-1", "abcdef0")
    with pytest.raises(ContractViolations):
        await call
    held = await there.attempt("packet-1")
    assert (held.state, held.refusals) == (WorkerState.EXECUTING, 1)
    assert held.lease_expires_at_ms is None

    call = completing(handoffs, "fedcba9")
    await verdict_of(there, call)
    answer = await call
    assert (answer.final_commit, answer.swarm_complete) == ("fedcba9", True)
    assert await handoffs.coordinator.swarms.complete(PACKETS, complete("fedcba9")) == answer
    assert (await there.receipt("packet-1"))["worker"] == "p"
    status = await handoffs.coordinator.swarms.status(PACKETS)
    assert (status.workers[0].status, status.ready_for_merge) == ("complete", True)
    with pytest.raises(PacketFinished):
        await handoffs.coordinator.swarms.complete(PACKETS, complete("0000000"))


async def test_a_packet_under_verification_waits_for_its_verdict(handoffs: HandoffFixture) -> None:
    there = await packets_of(handoffs)
    await handoffs.coordinator.swarms.progress(PACKETS, progress())
    call = completing(handoffs)
    await eventually(
        lambda: (PACKETS, "packet-1") in handoffs.coordinator._verdict_waiters._waiting, "a claim"
    )
    again = completing(handoffs)  # an outbox repeats it
    with pytest.raises(IllegalTransition):
        await handoffs.coordinator.swarms.complete(PACKETS, complete("0000000"))
    error = ErrorRequest(
        packet_id=1, task_id="s", error_type="timeout", message="m", recoverable=True
    )
    with pytest.raises(IllegalTransition):
        await handoffs.coordinator.swarms.error(PACKETS, error)
    # A restarted worker repeats its earlier reports.
    await handoffs.coordinator.swarms.progress(PACKETS, progress(), "another key")
    await handoffs.coordinator.swarms.register(PACKETS, register())
    await handoffs.pass_seconds(86_400 * 3)
    await verdict_of(there, call)
    assert await again == await call
    assert len(await there.events("claim_made")) == 1


async def test_a_packet_that_requests_files_has_no_lease(handoffs: HandoffFixture) -> None:
    """A lease of a packet would expire, and nobody could end it."""
    there = await packets_of(handoffs)
    await handoffs.coordinator.swarms.progress(PACKETS, progress())
    asked = await there.ask_for("packet-1", "Makefile")
    assert asked.status == "open"
    assert (await there.attempt("packet-1")).lease_expires_at_ms is None
    no = DecideScopeRequest(swarm_id=PACKETS, request_id=asked.request_id, granted=False)
    await there.handoff_service.decide_scope(no)
    assert (await there.attempt("packet-1")).lease_expires_at_ms is None


async def test_a_packet_without_a_handoff_completes_without_a_claim(
    handoffs: HandoffFixture,
) -> None:
    await handoffs.in_swarm(PACKETS)
    await handoffs.coordinator.swarms.register(PACKETS, register())
    answer = await handoffs.coordinator.swarms.complete(PACKETS, complete())
    assert answer.swarm_complete is True
    assert await handoffs.take() is None
