"""Cards of tasks with a contract: milestones with their substates, CI, claims."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shiftboss.protocol.board.cards import ListCardsRequest
from shiftboss.protocol.board.workers import ListWorkersRequest
from tests.conformance.contract.contract_fixtures import ContractFixture, runs

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("CC-18", "OWN-04")]

TASK = "adnet"


async def card_of(contract: ContractFixture) -> dict[str, Any]:
    request = ListCardsRequest(swarm_id=contract.swarm_id, bead_ids=[TASK])
    (card,) = json.loads((await contract.coordinator.board.list_cards(request)).body)["cards"]
    return dict(card)


async def worker_of(contract: ContractFixture) -> dict[str, Any]:
    request = ListWorkersRequest(swarm_id=contract.swarm_id)
    answer = json.loads((await contract.coordinator.board.list_workers(request)).body)
    return next(worker for worker in answer["workers"] if worker["name"] == "w")


async def shown(contract: ContractFixture) -> tuple[Any, ...]:
    """On the card, and the same for the worker."""
    members = ("milestone", "substate", "progress")
    card, worker = await card_of(contract), await worker_of(contract)
    assert [card.get(name) for name in members] == [worker.get(name) for name in members]
    return (card["column"], *(card.get(name) for name in members))


async def test_substates_and_progress_are_shown(contract: ContractFixture) -> None:
    await contract.works_on("adnet", "w", TASK)
    await contract.says(TASK, "WORKING: Fees [substate: writing_tests] [files: 3/5]")
    assert await shown(contract) == ("running", "WORKING", "writing_tests", "3/5 files")
    sha = await contract.pushes(TASK, repo="adnet")
    assert await shown(contract) == ("verifying", "PUSHED_TO_CI", None, None)
    assert (await card_of(contract))["ci"] == "pending"
    await contract.ci_says(runs(sha, test="failure"))
    assert await shown(contract) == ("running", "FIXING_CI", None, None)
    await contract.says(
        TASK, "FIXING_CI: test job - assertion failed [substate: local_test] [attempt: 1/3]"
    )
    assert await shown(contract) == ("running", "FIXING_CI", "local_test", "fix applied")


async def test_a_card_names_the_repo_and_who_asks(contract: ContractFixture) -> None:
    await contract.works_on("adnet", "w", TASK)
    assert (await card_of(contract))["repo"] == "adnet"
    await contract.says(TASK, "BLOCKED: acdc-core is red")
    card = await card_of(contract)
    assert (card["column"], card["milestone"]) == ("needs_you", "BLOCKED")
    assert card["reason_kind"] == "question"
