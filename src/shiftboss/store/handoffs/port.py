"""The part of the port for handoffs, claims, ownership, receipts and strategies."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from shiftboss.protocol.claims.verdicts import CheckName, Waiver
from shiftboss.protocol.handoffs import HeldOutTests
from shiftboss.rules.claims.claims import Claim, ClaimPass
from shiftboss.rules.handoffs.handoffs import Handoff, Reservation, ScopeRequest, Signal
from shiftboss.rules.handoffs.strategies import StrategyRecord


class ReceiptRow(NamedTuple):
    """A signed receipt (`body`, JSON), with the title of its task. `planned`: by the operator."""

    receipt_id: str
    swarm_id: str
    task_id: str
    title: str
    body: str
    accepted_at_ms: int
    repo_id: str
    commit_sha: str
    planned: bool = False


class HandoffTransaction(Protocol):
    """Handoffs, claims, ownership, receipts and strategy records."""

    def handoff(self, swarm_id: str, task_id: str, version: int | None = None) -> Handoff | None:
        """The version in force, or the given version."""
        ...

    def add_handoff(self, handoff: Handoff) -> None: ...

    def held_out_tests(self, handoff: Handoff) -> HeldOutTests | None:
        """The tests that only the verifier sees. For nothing else: no worker may learn them."""
        ...

    def put_held_out_tests(self, handoff: Handoff, tests: HeldOutTests) -> None:
        """Store them under the hash that the handoff has."""
        ...

    def mark_planned(self, handoff: Handoff) -> None:
        """The operator has asked for this very contract."""
        ...

    # -- claims
    def claim(self, swarm_id: str, task_id: str, claim_id: int) -> Claim | None: ...

    def last_claim(self, swarm_id: str, task_id: str) -> Claim | None: ...

    def claims_of_task(self, swarm_id: str, task_id: str, limit: int) -> list[Claim]:
        """The newest first."""
        ...

    def next_claim(self, now_ms: int, verifier: str) -> Claim | None:
        """The oldest claim that no verifier has taken and that this verifier has not passed on
        lately. Take its swarm before taking it."""
        ...

    def next_claim_at_ms(self, verifier: str) -> int | None:
        """When the verifier can take the first open claim: 0 for at once, None if there is none."""
        ...

    def open_claims(self, swarm_id: str, limit: int) -> list[Claim]:
        """The claims without a verdict, oldest first; of all swarms if `swarm_id` is empty."""
        ...

    def escalated_claims(self, swarm_id: str, limit: int) -> list[Claim]:
        """Those that wait for a person, because no verifier can look at them."""
        ...

    def unattended_claims(self, now_ms: int, limit: int) -> list[Claim]:
        """Of all swarms, those that no verifier has and that are not escalated."""
        ...

    def claim_passes(self, claim: Claim) -> list[ClaimPass]:
        """The verifiers that could not look at the claim, the latest first."""
        ...

    def put_claim_pass(self, claim_pass: ClaimPass) -> None: ...

    def drop_claim_passes(self, claim: Claim) -> int:
        """Every verifier may look at the claim again at once; how many had passed on it."""
        ...

    def verifiers(self, since_ms: int, limit: int) -> dict[str, int]:
        """The names of the verifiers that asked for claims since then, and when they last did."""
        ...

    def put_verifier(self, name: str, seen_at_ms: int) -> None: ...

    def forget_verifier(self, name: str) -> None: ...

    def forget_verifiers_before(self, seen_at_ms: int) -> None: ...

    def put_claim(self, claim: Claim) -> bool:
        """Add or update a claim. False, without a change, if it has ended."""
        ...

    def mark_verdict_delivered(self, claim: Claim, now_ms: int) -> None:
        """Record that the worker knows the verdict."""
        ...

    def amend_claim(self, claim: Claim) -> None:
        """Replace the content of an open claim."""
        ...

    def free_claims_of(self, verifier: str) -> int:
        """Make the claims of a verifier open again; how many."""
        ...

    # -- ownership
    def hold_repo(self, repo: str) -> None:
        """No other transaction can reserve paths of the repo until the commit."""
        ...

    def reservations_of_repo(self, repo: str) -> list[Reservation]: ...

    def has_reservation(self, swarm_id: str, task_id: str) -> bool: ...

    def release_idle(self, swarm_id: str) -> int:
        """Release the files of the tasks that are open, queued or failed; how many there were."""
        ...

    def reserve(self, reservation: Reservation, at_ms: int) -> None: ...

    def release(self, swarm_id: str, task_id: str) -> None: ...

    def scope_request(self, swarm_id: str, request_id: int) -> ScopeRequest | None: ...

    def scope_requests(self, swarm_id: str, limit: int, *, only_open: bool) -> list[ScopeRequest]:
        """The open ones, oldest first; or all, newest first."""
        ...

    def scope_request_of_question(self, swarm_id: str, question_id: int) -> ScopeRequest | None:
        """The open scope request that the question belongs to."""
        ...

    def add_scope_request(self, request: ScopeRequest) -> int:
        """Its id."""
        ...

    def decide_scope_request(self, request: ScopeRequest) -> bool:
        """False, without a change, if it was decided before."""
        ...

    def waivers(self, swarm_id: str, task_id: str) -> list[Waiver]: ...

    def put_waiver(self, swarm_id: str, task_id: str, waiver: Waiver, at_ms: int) -> None: ...

    def drop_waivers_of_check(self, swarm_id: str, task_id: str, check: CheckName) -> None: ...

    # -- receipts and signals
    def add_receipt(self, receipt: ReceiptRow) -> None: ...

    def receipt_of_task(self, swarm_id: str, task_id: str) -> ReceiptRow | None: ...

    def receipt(self, receipt_id: str) -> ReceiptRow | None: ...

    def swarms_with_receipt(self, task_id: str, limit: int) -> list[str]:
        """The swarms that have a receipt of a task of this id, also those that are deleted."""
        ...

    def receipts_after(self, after: tuple[int, str], limit: int) -> list[ReceiptRow]:
        """In the order of acceptance, after (accepted_at_ms, receipt_id)."""
        ...

    def newest_planned_commits(self, repo_id: str, limit: int) -> list[str]:
        """The accepted commits of tasks that the operator planned in the repository, the newest
        first."""
        ...

    def add_signal(self, signal: Signal) -> None: ...

    def signals(self, strategy: str, limit: int) -> list[Signal]:
        """The newest first."""
        ...

    def strategies(self) -> list[StrategyRecord]: ...

    def take_strategy(self, strategy: str) -> StrategyRecord | None:
        """Its record, locked until the commit."""
        ...

    def put_strategy(self, record: StrategyRecord) -> None: ...
