"""Random sequences of contracts, claims, verdicts and reviews, on both stores.

Two verifiers take claims and report late, twice, or about attempts that have ended. After every
step the invariants of every store hold, and every receipt verifies.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Coroutine
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from shiftboss.coordinator.coordinator import Coordinator
from shiftboss.coordinator.invariants.checks import check_swarm
from shiftboss.coordinator.invariants.claims import unverified_receipt
from shiftboss.coordinator.invariants.events import fold_swarm, state_equals_fold
from shiftboss.coordinator.invariants.facts import BrokenInvariant, StoreFacts, read_swarm
from shiftboss.errors import ShiftbossError
from shiftboss.protocol.claims.verdicts import VerificationJob
from shiftboss.protocol.runs import ApproveRequest, RejectRequest
from shiftboss.simulator.evidence import SimulatedEvidence
from shiftboss.simulator.forge import Forge, simulated_key
from shiftboss.store.open_store import store_at
from shiftboss.store.port import Transaction
from tests.conformance.bus.bus_fixtures import StillClock
from tests.conformance.handoffs.handoff_fixtures import HandoffFixture, accepted, refused
from tests.repos import Repo

TASKS = st.sampled_from(["t0", "t1", "t2"])
WORKERS = st.sampled_from(["v", "w"])
VERIFIERS = st.sampled_from(["a", "b"])
FILES = st.sampled_from(["src/a.py", "src/b.py", "src/*.py", "docs/**"])
EXAMPLES = {"sqlite": 25, "postgres": 6}


class Claims(RuleBasedStateMachine):
    """One swarm of its own in a shared store."""

    def __init__(self, runner: asyncio.Runner, handoffs: HandoffFixture) -> None:
        super().__init__()
        self._runner = runner
        self._first = handoffs
        self.taken: list[tuple[VerificationJob, str]] = []

    def may(self, step: Coroutine[Any, Any, object]) -> object:
        try:
            return self._runner.run(step)
        except ShiftbossError:
            return None

    @initialize(number=st.integers(0, 2**48))
    def open(self, number: int) -> None:
        self.handoffs = self._runner.run(self._first.in_swarm(f"swarm-{number}-{next(_NUMBERS)}"))
        self._runner.run(self.handoffs.register("v", "w"))

    # -- contracts and tasks

    @rule(task=TASKS, file=FILES, review=st.sampled_from(["none", "required"]))
    def spawn(self, task: str, file: str, review: str) -> None:
        self.may(self.handoffs.spawn(task, file, review=review, submit=True))

    @rule(task=TASKS, file=FILES)
    def replace(self, task: str, file: str) -> None:
        self.may(self.handoffs.replace(task, file))

    @rule(task=TASKS)
    def submit(self, task: str) -> None:
        self.may(self.handoffs.submit(task))

    @rule(task=TASKS)
    def retry(self, task: str) -> None:
        self.may(self.handoffs.retry(task))

    @rule(task=TASKS)
    def cancel(self, task: str) -> None:
        self.may(self.handoffs.cancel(task))

    @rule(name=WORKERS)
    def reset(self, name: str) -> None:
        self.may(self.handoffs.reset(name))

    @rule(name=WORKERS)
    def work(self, name: str) -> None:
        """Take what is offered, as most polls do."""
        polled: Any = self.may(self.handoffs.look(name))
        if polled is not None and polled.task is not None:
            self.may(self.handoffs.ack(name, polled.task.bead_id))

    # -- claims

    @rule(task=TASKS, name=st.none() | WORKERS, key=st.none() | st.sampled_from(["k1", "k2"]))
    def claim(self, task: str, name: str | None, key: str | None) -> None:
        self.may(self.handoffs.complete(task, key, name=name))

    @rule(task=TASKS)
    def fail(self, task: str) -> None:
        self.may(self.handoffs.failed(task))

    @rule(verifier=VERIFIERS)
    def take(self, verifier: str) -> None:
        job = self._runner.run(self.handoffs.take(verifier))
        if job is not None:
            self.taken.append((job, verifier))

    @precondition(lambda self: self.taken)
    @rule(data=st.data(), verdict=st.sampled_from(["accept", "refuse", "not seen", "renew"]))
    def judge(self, data: st.DataObject, verdict: str) -> None:
        """Any claim that was ever taken: its verifier may be late, or repeat itself."""
        job, verifier = data.draw(st.sampled_from(self.taken))
        if verdict == "accept":
            self.may(self.handoffs.report(job, accepted(job), verifier))
        elif verdict == "refuse":
            self.may(self.handoffs.report(job, refused(job), verifier))
        elif verdict == "not seen":
            self.may(self.handoffs.not_seen(job, verifier))
        else:
            self.may(self.handoffs.renew(job, verifier))

    @rule(task=TASKS, good=st.booleans())
    def review(self, task: str, good: bool) -> None:
        about: dict[str, Any] = {"swarm_id": self.handoffs.swarm_id, "bead_id": task, "by": "me"}
        runs = self.handoffs.coordinator.runs
        if good:
            self.may(runs.approve(ApproveRequest(**about)))
        else:
            self.may(runs.reject(RejectRequest(**about, reason="not good")))

    @rule()
    def answer_questions(self) -> None:
        for question in self._runner.run(self.handoffs.questions()):
            self.may(self.handoffs.answer(question.question_id))

    @rule(seconds=st.sampled_from([1, 61, 130, 1801, 90_000]))
    def let_time_pass(self, seconds: int) -> None:
        self._runner.run(self.handoffs.pass_seconds(seconds))

    # -- invariants

    @invariant()
    def the_invariants_of_every_store_hold(self) -> None:
        if hasattr(self, "handoffs"):
            read = self.handoffs.coordinator.store.read
            assert self._runner.run(read(self.broken_invariants)) == []

    def broken_invariants(self, tx: Transaction) -> list[BrokenInvariant | None]:
        swarm_id = self.handoffs.swarm_id
        facts = read_swarm(tx, swarm_id)
        assert facts is not None
        store = StoreFacts([], [], tx.repo_locks(), tx.all_reservations())
        rows = [row for rows in facts.receipts.values() for row in rows]
        key = simulated_key().public_pem
        return [
            *check_swarm(facts, store),
            *state_equals_fold(facts, fold_swarm(tx, swarm_id)),
            *filter(None, (unverified_receipt(row, key) for row in rows)),
        ]

    def teardown(self) -> None:
        """Leave no claim and no file for the next example."""
        for task in ("t0", "t1", "t2"):
            self.may(self.handoffs.cancel(task))


_NUMBERS = itertools.count(1)


@pytest.mark.requirement("OWN-09", "OWN-02")
def test_whatever_verifiers_and_workers_do_done_stays_proven(
    store_address: str, repo: Repo
) -> None:
    clock = StillClock()
    evidence = SimulatedEvidence(Forge(), lambda: 0.0, lambda: False, lambda: False)
    with asyncio.Runner() as runner:
        coordinator = Coordinator(store_at(store_address), evidence, clock=clock, verifies=False)
        runner.run(coordinator.start())
        first = HandoffFixture(coordinator, clock, repo)
        try:
            run_state_machine_as_test(
                lambda: Claims(runner, first),  # type: ignore[arg-type]
                settings=settings(
                    max_examples=EXAMPLES[coordinator.store.name],
                    stateful_step_count=30,
                    deadline=None,
                    suppress_health_check=list(HealthCheck),
                ),
            )
        finally:
            runner.run(coordinator.stop())
