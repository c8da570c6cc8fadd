"""The work of a task as a difference to the base of its contract."""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import Iterable
from typing import Final, NamedTuple

from shiftboss.coordinator.swarms.swarms import check_task_exists
from shiftboss.errors import DiffUnavailable, EvidenceUnavailable, UnknownHandoff, UnknownRepo
from shiftboss.evidence.port import Evidence
from shiftboss.protocol.claims.diffs import (
    DiffAnswer,
    DiffSource,
    FileDiff,
    FileScope,
    ShowDiffRequest,
    WorkDiff,
)
from shiftboss.protocol.handoffs import VerificationPolicy, WorkerHandoff
from shiftboss.rules.claims.claims import Claim
from shiftboss.rules.handoffs.handoffs import Handoff
from shiftboss.rules.paths.ownership import Ownership
from shiftboss.rules.paths.patterns import Scope
from shiftboss.store.port import Store, Transaction

# A difference of two commits never changes.
DIFFS_KEPT_MAX: Final = 16
# The evidence process verifies claims, too.
AT_ONCE_MAX: Final = 2


class _Work(NamedTuple):
    """The diff to show: a commit or a branch, against a base."""

    source: DiffSource
    handoff: Handoff
    base: str
    rev: str
    claim_id: int | None = None


class Diffs:
    def __init__(self, store: Store, evidence: Evidence) -> None:
        self._store = store
        self._evidence = evidence
        self._kept: OrderedDict[tuple[str, str, str], WorkDiff] = OrderedDict()
        self._turns = asyncio.Semaphore(AT_ONCE_MAX)

    async def show(self, request: ShowDiffRequest) -> DiffAnswer:
        works = await self._store.read(lambda tx: _find(tx, request))
        command = f"shiftboss diff {request.bead_id} --swarm {request.swarm_id}"
        for work in works:
            try:
                async with self._turns:
                    diff = await self._diff(work)
            except (EvidenceUnavailable, UnknownRepo) as error:
                raise DiffUnavailable(request.bead_id, error.detail, command) from error
            if diff is not None and not (work.source == "branch" and diff.commit == work.base):
                return _answer(work, diff)
        raise DiffUnavailable(request.bead_id, _why_none(works), command)

    async def _diff(self, work: _Work) -> WorkDiff | None:
        key = (work.handoff.repo, work.base, work.rev)
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        diff = await self._evidence.diff(work.handoff.repo, work.base, work.rev)
        if diff is not None and work.source != "branch":  # a branch moves on
            self._kept[key] = diff
            if len(self._kept) > DIFFS_KEPT_MAX:
                self._kept.popitem(last=False)
        return diff


def _find(tx: Transaction, request: ShowDiffRequest) -> list[_Work]:
    """The candidates, best first: the landed commit, else a claim that is not refused, else the
    branch. Nothing keeps the commit of a refused claim, or one that landed as another."""
    check_task_exists(tx, request.swarm_id, request.bead_id)
    task = (request.swarm_id, request.bead_id)
    current = tx.handoff(*task)
    if current is None:
        raise UnknownHandoff(request.bead_id)
    if request.claim_id is not None:
        claim = tx.claim(*task, request.claim_id)
        if claim is None:
            raise DiffUnavailable(
                request.bead_id,
                f"it has no claim {request.claim_id}",
                f"shiftboss task show {request.bead_id} --swarm {request.swarm_id}",
            )
        return _claimed(tx, claim, current, "claim")
    landing, last = tx.landing(*task), tx.last_claim(*task)
    landed = None if landing is None else landing.landed_commit
    works: list[_Work] = []
    if last is not None and (landed is not None or last.state not in ("refused", "void")):
        works += _claimed(tx, last, current, "claim" if landed is None else "landed")
    if landed is not None:
        works.append(_Work("landed", current, f"{landed}^1", landed))
    elif current.branch is not None:
        works.append(_Work("branch", current, current.base_commit, f"refs/heads/{current.branch}"))
    return works


def _claimed(tx: Transaction, claim: Claim, current: Handoff, source: DiffSource) -> list[_Work]:
    verdict = {} if claim.verdict is None else json.loads(claim.verdict)
    commit = verdict.get("commit") or json.loads(claim.words).get("commit")
    handoff = tx.handoff(claim.swarm_id, claim.task_id, claim.contract_version) or current
    if commit is None:  # the tip of the branch, which has not been resolved yet
        commit = None if handoff.branch is None else f"refs/heads/{handoff.branch}"
    if commit is None:
        return []
    return [_Work(source, handoff, handoff.base_commit, commit, claim.claim_id)]


def _why_none(works: list[_Work]) -> str:
    if not works:
        return "it has no claim and no branch"
    if works[-1].source == "branch":
        return f"there is no work on its branch {works[-1].handoff.branch} yet"
    return f"its commit {works[0].rev[:12]} is in no repository that the server can read"


def _answer(work: _Work, found: WorkDiff) -> DiffAnswer:
    files = list(_with_scope(found.files, work.handoff))
    return DiffAnswer(
        base=found.base,
        commit=found.commit,
        files=files,
        files_changed=found.files_changed,
        truncated=found.truncated,
        source=work.source,
        claim_id=work.claim_id,
        contract_version=work.handoff.version,
    )


def _with_scope(files: Iterable[FileDiff], handoff: Handoff) -> Iterable[FileDiff]:
    contract = WorkerHandoff.model_validate_json(handoff.body).contract
    policy = VerificationPolicy.model_validate_json(handoff.policy)
    ownership = Ownership(contract.files_owned, contract.files_readonly, policy.generated)
    generated = Scope(policy.generated)
    for file in files:
        paths = [file.path] if file.old_path is None else [file.old_path, file.path]
        yield file.model_copy(update={"scope": _scope(paths, ownership, generated)})


def _scope(paths: list[str], ownership: Ownership, generated: Scope) -> FileScope:
    """That of a renamed file is the worst of both of its names."""
    refused = [path for path in paths if ownership.refusal(path) is not None]
    if refused:
        return "readonly" if any(map(ownership.is_readonly, refused)) else "outside"
    return "generated" if all(map(generated.covers, paths)) else "owned"
