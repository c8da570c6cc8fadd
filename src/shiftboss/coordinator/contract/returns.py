"""What a worker gives back at completion. It is kept with the attempt until there is a claim, and
stands in the receipt as its summary."""

from __future__ import annotations

import json

from shiftboss.coordinator.contract.attempts import claim_words
from shiftboss.errors import InvalidRequest
from shiftboss.protocol.contract_requests import CompletionReturn
from shiftboss.protocol.milestones import Done, MilestoneReport, PushedToCi
from shiftboss.rules.contract.records import ContractAttempt, Tracking
from shiftboss.rules.tasks.packets import Assignment
from shiftboss.store.port import Transaction


def check_returns(said: MilestoneReport, returns: CompletionReturn | None) -> None:
    if returns is not None and not isinstance(said, Done | PushedToCi):
        raise InvalidRequest(
            f"returns: goes with DONE or PUSHED_TO_CI, not with {said.milestone}", field="returns"
        )


def with_words(
    attempt: ContractAttempt, said: MilestoneReport, returns: CompletionReturn | None
) -> ContractAttempt:
    """The attempt with its last report. What was returned with an older push is forgotten."""
    words = said.model_dump(mode="json", exclude_none=True)
    if returns is not None:
        words["returns"] = returns.model_dump(mode="json")
    return attempt._replace(progress=json.dumps(words))


def give_back(
    tx: Transaction,
    held: Assignment,
    attempt: ContractAttempt,
    said: Done,
    returns: CompletionReturn,
    tracking: Tracking | None,
) -> ContractAttempt:
    """With DONE. The server may have claimed by itself: then its claim gets the words."""
    attempt = with_words(attempt, said, returns)
    tx.put_contract_attempt(attempt)
    if held.claim_id is not None:
        claim = tx.claim(held.swarm_id, held.task_id, held.claim_id)
        assert claim is not None, "an attempt's claim is there"
        # The summary alone: the commit is what a verifier may be looking at already.
        words = json.loads(claim.words) | {"summary": claim_words(tracking, attempt)["summary"]}
        tx.amend_claim(claim._replace(words=json.dumps(words)))
    return attempt
