"""What the store port promises about locks, CI, attempts, halts and checkpoints, on both stores."""

from __future__ import annotations

from typing import Any

import pytest

from shiftboss.errors import StoreUnavailable
from shiftboss.rules.contract.records import (
    ContractAttempt,
    Halt,
    RepoLock,
    RepoState,
    StoredCheckpoint,
    Tracking,
)
from shiftboss.rules.tasks.tasks import Task
from shiftboss.store.port import Transaction
from tests.conformance.opened import OpenStore
from tests.conformance.store.rows import SWARM

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("CC-05")]

NOW = 1_800_000_000_000
SHA = "a" * 40


def lock(repo: str = "adnet", task_id: str = "t", **changes: Any) -> RepoLock:
    return RepoLock(repo, SWARM, task_id, NOW)._replace(**changes)


def tracking(task_id: str = "t", **changes: Any) -> Tracking:
    whole = Tracking(
        swarm_id=SWARM,
        task_id=task_id,
        epoch=2,
        repo="adnet",
        sha=SHA,
        state="waiting",
        run_id=None,
        report=None,
        errors=0,
        pushed_at_ms=NOW,
        look_at_ms=NOW + 5,
        pause_ms=15_000,
    )
    return whole._replace(**changes)


def attempt(task_id: str = "t", **changes: Any) -> ContractAttempt:
    return ContractAttempt(SWARM, task_id, 2, NOW, look_at_ms=NOW + 5)._replace(**changes)


def halt(**changes: Any) -> Halt:
    whole = Halt(0, ["acdc-core", "adnet"], "Schlüssel im Commit ✓", SWARM, "t", NOW, None)
    return whole._replace(**changes)


def checkpoint(task_id: str = "t", **changes: Any) -> StoredCheckpoint:
    return StoredCheckpoint(SWARM, task_id, 2, "commit_pushed", '{"é": 1}', NOW)._replace(**changes)


async def test_a_repo_has_one_lock_and_a_task_has_one_repo(with_swarm: OpenStore) -> None:
    def write(tx: Transaction) -> list[bool]:
        tx.hold_repos()
        return [
            tx.add_repo_lock(one)
            for one in (lock(), lock(task_id="u"), lock("sdk"), lock("sdk", "u"))
        ]

    assert await with_swarm.write(write) == [True, False, False, True]
    assert await with_swarm.read(lambda tx: tx.repo_locks()) == [lock(), lock("sdk", "u")]
    assert await with_swarm.read(lambda tx: tx.repo_lock_of_task(SWARM, "t")) == lock()
    assert await with_swarm.read(lambda tx: tx.repo_lock_of_task(SWARM, "T")) is None
    assert await with_swarm.write(lambda tx: tx.release_repo("adnet"))
    assert not await with_swarm.write(lambda tx: tx.release_repo("adnet"))
    assert await with_swarm.read(lambda tx: tx.repo_locks()) == [lock("sdk", "u")]


async def test_a_repo_keeps_its_newest_state_and_when_it_was_last_green(
    with_swarm: OpenStore,
) -> None:
    red = RepoState("adnet", "red", SHA, None, SWARM, "t", NOW)
    green = RepoState("adnet", "green", "b" * 40, "90", SWARM, "u", NOW + 1)
    assert await with_swarm.read(lambda tx: tx.last_green_at_ms("adnet")) is None
    await with_swarm.write(lambda tx: tx.put_repo_state(green))
    await with_swarm.write(lambda tx: tx.put_green("adnet", NOW - 7))
    await with_swarm.write(lambda tx: tx.put_repo_state(red))
    assert await with_swarm.read(lambda tx: tx.repo_states()) == [red]
    assert await with_swarm.read(lambda tx: tx.last_green_at_ms("adnet")) == NOW - 7
    with pytest.raises(StoreUnavailable):
        await with_swarm.write(lambda tx: tx.put_repo_state(red._replace(state="blue")))


@pytest.mark.requirement("CC-03")
async def test_a_task_follows_one_commit(with_swarm: OpenStore) -> None:
    found = tracking(sha="b" * 40, run_id="90", report='{"runs": []}', errors=3, state="running")
    for one in (tracking(), found, tracking("u", look_at_ms=NOW)):
        await with_swarm.write(lambda tx, one=one: tx.put_tracking(one))  # type: ignore[misc]
    assert await with_swarm.read(lambda tx: tx.tracking(SWARM, "t")) == found
    assert await with_swarm.read(lambda tx: tx.next_ci_check_at_ms()) == NOW
    due = await with_swarm.read(lambda tx: tx.due_tracking(NOW + 5, 10))
    assert [row.task_id for row in due] == ["u", "t"]
    assert await with_swarm.read(lambda tx: tx.due_tracking(NOW + 4, 10)) == [due[0]]
    assert await with_swarm.read(lambda tx: tx.due_tracking(NOW + 5, 1)) == [due[0]]
    assert await with_swarm.read(lambda tx: tx.tracking_of_sha("adnet", SHA)) == [due[0]]
    ended = tracking("u", state="passed", look_at_ms=None)
    await with_swarm.write(lambda tx: tx.put_tracking(ended))
    assert await with_swarm.read(lambda tx: tx.tracking_of_sha("adnet", SHA)) == []
    await with_swarm.write(lambda tx: tx.drop_tracking(SWARM, "t"))
    assert await with_swarm.read(lambda tx: tx.tracking(SWARM, "t")) is None
    assert await with_swarm.read(lambda tx: tx.next_ci_check_at_ms()) is None


@pytest.mark.requirement("CC-03")
async def test_the_schema_rejects_invalid_tracking(with_swarm: OpenStore) -> None:
    for wrong in (
        tracking(state="unknown"),
        tracking(state="passed"),
        tracking(look_at_ms=None),
        tracking(pause_ms=-1),
        tracking(swarm_id="nowhere"),
    ):
        with pytest.raises(StoreUnavailable):
            await with_swarm.write(lambda tx, wrong=wrong: tx.put_tracking(wrong))  # type: ignore[misc]


@pytest.mark.requirement("CC-16")
async def test_pushes_are_counted_per_repo(with_swarm: OpenStore) -> None:
    for repo, sha in (("adnet", "1"), ("sdk", "2"), ("adnet", "3")):
        await with_swarm.write(
            lambda tx, repo=repo, sha=sha: tx.add_push(repo, sha, SWARM, "t", NOW)  # type: ignore[misc]
        )
    pushes = await with_swarm.read(lambda tx: tx.newest_pushes("adnet"))
    assert [(push.number, push.sha) for push in pushes] == [(2, "3"), (1, "1")]
    assert await with_swarm.read(lambda tx: tx.newest_pushes("alphavm")) == []


@pytest.mark.requirement("CC-12")
async def test_an_attempt_is_stored_and_is_due_at_its_time(with_swarm: OpenStore) -> None:
    whole = attempt(
        fix_attempts=3,
        ci_failed=True,
        progress="{}",
        ladder="{}",
        denials="{}",
        paused="ja ✓",
        last_commit_ms=NOW - 1,
        signs="[]",
        tip=SHA,
    )
    for one in (attempt(), whole, attempt("u", look_at_ms=NOW), attempt("v", look_at_ms=None)):
        await with_swarm.write(lambda tx, one=one: tx.put_contract_attempt(one))  # type: ignore[misc]
    assert await with_swarm.read(lambda tx: tx.contract_attempt(SWARM, "t")) == whole
    assert await with_swarm.read(lambda tx: tx.next_attempt_check_at_ms()) == NOW
    due = await with_swarm.read(lambda tx: tx.due_attempts(NOW + 5, 10))
    assert [row.task_id for row in due] == ["u", "t"]
    assert await with_swarm.read(lambda tx: tx.due_attempts(NOW + 5, 1)) == due[:1]
    for task in ("t", "u"):
        await with_swarm.write(lambda tx, task=task: tx.drop_contract_attempt(SWARM, task))  # type: ignore[misc]
    assert await with_swarm.read(lambda tx: tx.contract_attempt(SWARM, "t")) is None
    assert await with_swarm.read(lambda tx: tx.next_attempt_check_at_ms()) is None


@pytest.mark.requirement("CC-15")
async def test_a_halt_is_in_force_until_it_is_lifted(with_swarm: OpenStore) -> None:
    first = await with_swarm.write(lambda tx: tx.add_halt(halt()))
    second = await with_swarm.write(lambda tx: tx.add_halt(halt(repos=["adnet"])))
    assert (first, second) == (1, 2)
    await with_swarm.write(lambda tx: tx.add_repo_lock(lock()))
    assert await with_swarm.read(lambda tx: tx.halt_of_task(SWARM, "u")) is None
    found = await with_swarm.read(lambda tx: tx.halt_of_task(SWARM, "t"))
    assert found == halt(halt_id=1)
    assert await with_swarm.write(lambda tx: tx.lift_halt(1, NOW + 9))
    assert not await with_swarm.write(lambda tx: tx.lift_halt(1, NOW + 10))
    assert not await with_swarm.write(lambda tx: tx.lift_halt(3, NOW + 10))
    (left,) = await with_swarm.read(lambda tx: tx.halts_in_force())
    assert left == halt(halt_id=2, repos=["adnet"])
    assert await with_swarm.read(lambda tx: tx.halt_of_task(SWARM, "t")) == left
    assert await with_swarm.read(lambda tx: tx.halt(1)) == halt(halt_id=1, lifted_at_ms=NOW + 9)
    assert await with_swarm.read(lambda tx: tx.halt(3)) is None
    # The number of a lifted halt is not reused.
    await with_swarm.write(lambda tx: tx.lift_halt(2, NOW))
    assert await with_swarm.write(lambda tx: tx.add_halt(halt())) == 3


@pytest.mark.requirement("CC-15")
async def test_a_halted_chain_has_no_next_task(with_swarm: OpenStore) -> None:
    def add(tx: Transaction, task_id: str, number: int, version: int | None) -> None:
        tx.take_swarm(SWARM)
        task = Task(SWARM, task_id, "", "", 0, "queued", 0, number, 0, None, None, None, NOW, NOW)
        tx.add_task(task._replace(contract_version=version), [])

    for number, (task_id, version) in enumerate((("t", 1), ("u", 1), ("v", None))):
        await with_swarm.write(
            lambda tx, t=task_id, n=number, v=version: add(tx, t, n, v)  # type: ignore[misc]
        )
    await with_swarm.write(lambda tx: tx.add_repo_lock(lock()))

    async def following() -> str | None:
        found = await with_swarm.read(lambda tx: tx.next_task(SWARM))
        return found.task_id if found else None

    assert await following() == "t"
    await with_swarm.write(lambda tx: tx.add_halt(halt()))
    assert await following() == "u"
    await with_swarm.write(lambda tx: tx.lift_halt(1, NOW))
    assert await following() == "t"


@pytest.mark.requirement("CC-11")
async def test_the_newest_checkpoint_of_a_task_is_kept(with_swarm: OpenStore) -> None:
    newer = checkpoint(epoch=3, trigger_name="salvage", body="{}", at_ms=NOW + 1)
    for one in (checkpoint(), newer, checkpoint("a")):
        await with_swarm.write(lambda tx, one=one: tx.put_checkpoint(one))  # type: ignore[misc]
    assert await with_swarm.read(lambda tx: tx.checkpoint(SWARM, "t")) == newer
    assert await with_swarm.read(lambda tx: tx.checkpoint(SWARM, "x")) is None
    found = await with_swarm.read(lambda tx: tx.checkpoints(SWARM, 10))
    assert found == [checkpoint("a"), newer]
    assert await with_swarm.read(lambda tx: tx.checkpoints(SWARM, 1)) == found[:1]
