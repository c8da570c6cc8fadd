"""A coordinator with handoffs on a real store and a real repository. The tests act as its
verifier: they take claims and report verdicts, so nothing happens unless a test does it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from shiftboss.coordinator.coordinator import Coordinator
from shiftboss.errors import ContractViolations
from shiftboss.evidence.port import Evidence
from shiftboss.protocol.claims.claim_requests import (
    ClaimList,
    ListClaimsRequest,
    ReceiptRequest,
    RenewClaimRequest,
    RetryClaimAnswer,
    RetryClaimRequest,
    TakeClaimRequest,
    VerdictRequest,
)
from shiftboss.protocol.claims.verdicts import CheckResult, Verdict, VerificationJob, Violation
from shiftboss.protocol.handoff_requests import (
    CompletionAnswer,
    HandoffView,
    OwnershipRequest,
    RequestScopeRequest,
    ScopeView,
    ShowHandoffRequest,
    SpawnAnswer,
    SpawnSubtaskRequest,
    SwarmCompleteRequest,
)
from shiftboss.protocol.policy import Policy
from shiftboss.protocol.questions import AnswerQuestionRequest, ListQuestionsRequest, QuestionView
from shiftboss.protocol.swarms import CreateSwarmRequest
from shiftboss.rules.claims.claims import Claim
from shiftboss.rules.tasks.packets import Assignment
from shiftboss.rules.tasks.tasks import Worker
from shiftboss.store.open_store import store_at
from tests.conformance.bus.bus_fixtures import SWARM, BusFixture, StillClock
from tests.conformance.folding import check_fold
from tests.repos import Repo
from tests.waiting import eventually

COMMIT = "c" * 40
VERIFIER = "verifier"


def _in_full(job: VerificationJob) -> str:
    return job.commit if job.commit and len(job.commit) == 40 else COMMIT


def _tree(commit: str) -> str:
    """Commits have different files."""
    return commit[::-1]


def accepted(job: VerificationJob, **changes: Any) -> Verdict:
    checks = [CheckResult(check="scope", outcome="passed", message="within the contract")]
    if job.held_out is not None:
        checks.append(CheckResult(check="held_out", outcome="passed", message="they pass"))
    whole = Verdict(
        accepted=True,
        base_commit=job.base_commit,
        commit=_in_full(job),
        tree=_tree(_in_full(job)),
        checks=checks,
        violations=[],
        files_changed=0,
    )
    return whole.model_copy(update=changes)


def refused(job: VerificationJob, check: str = "scope", **changes: Any) -> Verdict:
    message = "README.md: is not in files_owned" if check == "scope" else f"{check} failed"
    whole = Verdict(
        accepted=False,
        base_commit=job.base_commit,
        commit=_in_full(job),
        tree=_tree(_in_full(job)),
        checks=[CheckResult(check=check, outcome="failed", message=message)],
        violations=[Violation(check=check, message=message, hint="change it back")],
    )
    return whole.model_copy(update=changes)


class HandoffFixture(BusFixture):
    def __init__(
        self, coordinator: Coordinator, clock: StillClock, repo: Repo, swarm_id: str = SWARM
    ) -> None:
        super().__init__(coordinator, clock, swarm_id)
        self.repo = repo
        self.handoff_service = coordinator.handoffs
        self.claim_service = coordinator.claims

    async def in_swarm(self, swarm_id: str) -> HandoffFixture:
        """The same fixture in another swarm."""
        await self.coordinator.swarms.create_swarm(
            CreateSwarmRequest(swarm_id=swarm_id, feature="f")
        )
        return HandoffFixture(self.coordinator, self.clock, self.repo, swarm_id)

    # -- contracts

    def spawn_request(self, task: str, *files: str, **members: Any) -> SpawnSubtaskRequest:
        given = {
            "swarm_id": self.swarm_id,
            "bead_id": task,
            "files": list(files) or [f"src/{task}.py"],
            "subtask_title": f"Title of {task}",
            "repo": str(self.repo.path),
            "success_criteria": ["It works"],
            "files_readonly": [],
        }
        return SpawnSubtaskRequest(**(given | members))

    async def spawn(self, task: str, *files: str, **members: Any) -> SpawnAnswer:
        return await self.handoff_service.swarm_spawn_subtask(
            self.spawn_request(task, *files, **members)
        )

    async def plan(self, task: str, *files: str, **members: Any) -> SpawnAnswer:
        """Spawn as the operator."""
        return await self.handoff_service.spawn_subtask(self.spawn_request(task, *files, **members))

    async def replace(self, task: str, *files: str, **members: Any) -> SpawnAnswer:
        return await self.handoff_service.replace_handoff(
            self.spawn_request(task, *files, **members)
        )

    async def show_handoff(self, task: str, version: int | None = None) -> HandoffView:
        return await self.handoff_service.show_handoff(
            ShowHandoffRequest(swarm_id=self.swarm_id, bead_id=task, version=version)
        )

    async def given_out(self, task: str, worker: str, *files: str, **members: Any) -> int:
        """Give a task with a handoff to a worker; returns the epoch."""
        await self.register(worker)
        await self.spawn(task, *files, submit=True, **members)
        return await self.start(worker, task)

    async def owners(self) -> set[str]:
        """The tasks that own files of the repository."""
        found = await self.handoff_service.who_owns(
            OwnershipRequest(swarm_id=self.swarm_id, repo=str(self.repo.path))
        )
        return {holder["bead_id"] for holder in found.holders}

    # -- claims

    async def complete(
        self, task: str, key: str | None = None, wait_ms: int = 0, **members: Any
    ) -> CompletionAnswer:
        said: dict[str, Any] = {
            "swarm_id": self.swarm_id,
            "bead_id": task,
            "wait_ms": wait_ms,
        }
        request = SwarmCompleteRequest(**(said | members))
        return await self.handoff_service.swarm_complete(request, key)

    async def claim(self, task: str, **members: Any) -> int:
        """Make a claim that waits for its verdict; returns its id."""
        answer = await self.complete(task, **members)
        assert (answer.success, answer.status) == (False, "verifying")
        return answer.claim_id

    async def last_claim(self, task: str) -> Claim:
        found = await self.coordinator.store.read(lambda tx: tx.last_claim(self.swarm_id, task))
        assert found is not None
        return found

    async def waiting(self, task: str, **members: Any) -> asyncio.Task[CompletionAnswer]:
        """A completion that waits for its verdict for ten minutes."""
        call = asyncio.create_task(self.complete(task, wait_ms=600_000, **members))
        key = (self.swarm_id, task)
        waiters = self.coordinator._verdict_waiters._waiting
        await eventually(lambda: key in waiters or call.done(), f"{task} waits")
        return call

    async def refusal_of(self, task: str, **members: Any) -> ContractViolations:
        try:
            answer = await self.complete(task, **members)
        except ContractViolations as error:
            return error
        raise AssertionError(f"not refused: {answer}")

    # -- verdicts

    async def take(self, verifier: str = VERIFIER, wait_ms: int = 0) -> VerificationJob | None:
        request = TakeClaimRequest(verifier=verifier, wait_ms=wait_ms)
        return (await self.claim_service.take_claim(request)).job

    async def taken(self, verifier: str = VERIFIER) -> VerificationJob:
        job = await self.take(verifier)
        assert job is not None, "there is no claim to verify"
        return job

    async def report(self, job: VerificationJob, verdict: Verdict, verifier: str = VERIFIER) -> str:
        content = verdict.model_dump(mode="json")
        answer = await self.claim_service.report_verdict(
            self._about(job, verifier, verdict=content)
        )
        assert answer.recorded is (answer.state != "void")
        return answer.state

    async def not_seen(self, job: VerificationJob, verifier: str = VERIFIER) -> str:
        about = self._about(job, verifier, failure="the disk is gone")
        return (await self.claim_service.report_verdict(about)).state

    async def unable(self, job: VerificationJob, verifier: str, reason: str = "not here") -> str:
        """The verifier cannot look at the claim."""
        about = self._about(job, verifier, unable=reason)
        return (await self.claim_service.report_verdict(about)).state

    async def released(self, job: VerificationJob, verifier: str) -> str:
        """The verifier stops."""
        about = self._about(job, verifier, released=True)
        return (await self.claim_service.report_verdict(about)).state

    async def open_claims(self, *, all_swarms: bool = False) -> ClaimList:
        request = ListClaimsRequest(swarm_id=self.swarm_id, all_swarms=all_swarms)
        return await self.claim_service.list_claims(request)

    async def retry_claim(self, task: str) -> RetryClaimAnswer:
        request = RetryClaimRequest(swarm_id=self.swarm_id, bead_id=task)
        return await self.claim_service.retry_claim(request)

    async def renew(self, job: VerificationJob, verifier: str = VERIFIER) -> bool:
        request = RenewClaimRequest(
            verifier=verifier, swarm_id=job.swarm_id, bead_id=job.bead_id, claim_id=job.claim_id
        )
        return (await self.claim_service.renew_claim(request)).held

    @staticmethod
    def _about(job: VerificationJob, verifier: str, **members: Any) -> VerdictRequest:
        return VerdictRequest(
            verifier=verifier,
            swarm_id=job.swarm_id,
            bead_id=job.bead_id,
            claim_id=job.claim_id,
            **members,
        )

    async def accept(self, **changes: Any) -> VerificationJob:
        """Accept the next claim."""
        job = await self.taken()
        assert await self.report(job, accepted(job, **changes)) == "accepted"
        return job

    async def refuse(self, check: str = "scope") -> VerificationJob:
        """Refuse the next claim."""
        job = await self.taken()
        assert await self.report(job, refused(job, check)) == "refused"
        return job

    async def finished(self, task: str, **members: Any) -> None:
        """A finished task with its receipt."""
        await self.spawn(task, **members)
        await self.claim(task, summary=f"Did {task}")
        await self.accept()

    async def done_by_hand(self, *tasks: str) -> None:
        """Finish tasks without a handoff."""
        await self.register("hand")
        for task in tasks:
            await self.submit(task)
            await self.start("hand", task)
            await self.done(task)
        await self.coordinator.store.write(
            lambda tx: tx.put_worker(Worker(self.swarm_id, "hand", None, False, 0, 0)),
            self.swarm_id,
        )

    async def receipt(self, task: str) -> dict[str, Any]:
        found = await self.coordinator.receipts.show_receipt(
            ReceiptRequest(swarm_id=self.swarm_id, bead_id=task)
        )
        body: dict[str, Any] = found.signed_receipt["receipt"]
        return body

    # -- state

    async def attempt(self, task: str) -> Assignment:
        held = await self.coordinator.store.read(lambda tx: tx.assignment(self.swarm_id, task))
        assert held is not None
        return held

    async def status(self, task: str) -> str:
        return (await self.show(task)).status

    async def events(self, kind: str) -> list[dict[str, Any]]:
        found = await self.coordinator.swarms.events_after(self.swarm_id, 0, 100_000)
        return [json.loads(one.data) for one in found if one.kind == kind]

    async def questions(self, *, only_open: bool = True) -> list[QuestionView]:
        request = ListQuestionsRequest(swarm_id=self.swarm_id, only_open=only_open)
        return (await self.bus_service.list_questions(request)).questions

    async def answer(self, question_id: int, words: str = "go on") -> None:
        await self.bus_service.answer_question(
            AnswerQuestionRequest(swarm_id=self.swarm_id, question_id=question_id, answer=words)
        )

    async def ask_for(
        self, task: str, *paths: str, reason: str = "needed", key: str | None = None, **members: Any
    ) -> ScopeView:
        request = RequestScopeRequest(
            swarm_id=self.swarm_id, bead_id=task, paths=list(paths), reason=reason, **members
        )
        return await self.handoff_service.request_scope(request, key)


@asynccontextmanager
async def open_handoffs(
    address: str,
    evidence: Evidence,
    repo: Repo,
    clock: StillClock | None = None,
    *,
    verifies: bool = False,
    policy: Policy | None = None,
) -> AsyncIterator[HandoffFixture]:
    clock = clock or StillClock()
    coordinator = Coordinator(
        store_at(address), evidence, clock=clock, verifies=verifies, policy=policy
    )
    await coordinator.start()
    try:
        fixture = HandoffFixture(coordinator, clock, repo)
        yield fixture
        await check_fold(fixture)
    finally:
        await coordinator.stop()
