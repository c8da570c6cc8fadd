"""What the store port promises about handoffs, claims, receipts and signals, on both stores."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from shiftboss.errors import StoreUnavailable
from shiftboss.protocol.claims.verdicts import Waiver
from shiftboss.rules.claims.claims import Claim
from shiftboss.rules.handoffs.handoffs import ScopeRequest
from shiftboss.rules.handoffs.strategies import StrategyRecord
from shiftboss.rules.tasks.tasks import Question
from shiftboss.store.port import Transaction
from tests.conformance.handoffs.handoff_rows import (
    NOW,
    claim,
    ended,
    handoff,
    receipt,
    reservation,
    scope_request,
    signal,
    taken,
)
from tests.conformance.opened import OpenStore, opened
from tests.conformance.store.rows import SWARM

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("HO-01")]


async def put(store: OpenStore, *claims: Claim) -> list[bool]:
    def write(tx: Transaction) -> list[bool]:
        tx.take_swarm(SWARM)
        return [tx.put_claim(claim) for claim in claims]

    return await store.write(write)


async def claim_of(store: OpenStore, claim_id: int = 1, task_id: str = "t") -> Claim | None:
    return await store.read(lambda tx: tx.claim(SWARM, task_id, claim_id))


# -- contracts


async def test_a_handoff_is_stored_and_its_newest_version_is_in_force(
    with_swarm: OpenStore,
) -> None:
    first, second = handoff(), handoff(version=2, branch=None, target=None, strategy=None)
    for one in (first, second, handoff("t2")):
        await with_swarm.write(lambda tx, one=one: tx.add_handoff(one))  # type: ignore[misc]
    assert await with_swarm.read(lambda tx: tx.handoff(SWARM, "t")) == second
    assert await with_swarm.read(lambda tx: tx.handoff(SWARM, "t", 1)) == first
    assert await with_swarm.read(lambda tx: tx.handoff(SWARM, "t", 3)) is None
    # Only the exact id, not similar ones.
    assert await with_swarm.read(lambda tx: tx.handoff(SWARM, "T")) is None
    assert await with_swarm.read(lambda tx: tx.handoff("elsewhere", "t")) is None


@pytest.mark.parametrize("wrong", [handoff(version=0), handoff(), handoff(swarm_id="nowhere")])
async def test_the_schema_rejects_an_invalid_handoff(with_swarm: OpenStore, wrong: Any) -> None:
    await with_swarm.write(lambda tx: tx.add_handoff(handoff()))
    with pytest.raises(StoreUnavailable):
        await with_swarm.write(lambda tx: tx.add_handoff(wrong))
    assert await with_swarm.read(lambda tx: tx.handoff(SWARM, "t")) == handoff()


# -- claims


async def test_a_claim_is_stored_with_its_outcome(with_swarm: OpenStore) -> None:
    assert await put(with_swarm, claim(), claim(2), claim(1, "u")) == [True] * 3
    assert await claim_of(with_swarm) == claim()
    assert await with_swarm.read(lambda tx: tx.last_claim(SWARM, "t")) == claim(2)
    assert await with_swarm.read(lambda tx: tx.last_claim(SWARM, "none")) is None
    for change in (taken(tries=2), ended()):
        assert await put(with_swarm, change) == [True]
        assert await claim_of(with_swarm) == change
    assert await claim_of(with_swarm, 2) == claim(2)


async def test_the_contents_of_a_claim_never_change(with_swarm: OpenStore) -> None:
    await put(with_swarm, claim())
    other = claim(epoch=9, worker="x", contract_version=9, words="{}", asked_at_ms=1, tries=1)
    await put(with_swarm, other)
    assert await claim_of(with_swarm) == claim(tries=1)


@pytest.mark.parametrize("state", ["accepted", "refused", "void"])
async def test_a_decided_claim_cannot_be_changed(with_swarm: OpenStore, state: str) -> None:
    await put(with_swarm, ended(state=state))
    later: tuple[Claim, ...] = (claim(), taken(), ended(state="accepted", verdict="{}"))
    assert await put(with_swarm, *later) == [False] * 3
    assert await claim_of(with_swarm) == ended(state=state)


@pytest.mark.parametrize(
    "wrong",
    [
        claim(0),
        claim(state="sleeping"),
        claim(state="taken", taken_by="v"),
        claim(state="taken", taken_until_ms=NOW),
        claim(state="accepted"),
        claim(ended_at_ms=NOW),
        claim(heard_at_ms=NOW),
        claim(swarm_id="nowhere"),
    ],
)
async def test_the_schema_rejects_an_invalid_claim(with_swarm: OpenStore, wrong: Claim) -> None:
    with pytest.raises(StoreUnavailable):
        await put(with_swarm, wrong)
    assert await with_swarm.read(lambda tx: tx.next_claim(NOW * 2, "v")) is None


async def test_the_oldest_claim_not_yet_taken_is_next(with_swarm: OpenStore) -> None:
    await put(
        with_swarm,
        claim(1, "new", asked_at_ms=NOW + 2),
        claim(1, "old", asked_at_ms=NOW),
        taken(until_ms=NOW + 50, task_id="held", asked_at_ms=NOW - 9),
        claim(1, "later", taken_until_ms=NOW + 70, asked_at_ms=NOW - 8),
        ended(task_id="over", asked_at_ms=NOW - 20),
    )

    async def next_at(now_ms: int) -> str | None:
        found = await with_swarm.read(lambda tx: tx.next_claim(now_ms, "v"))
        return found.task_id if found else None

    assert await next_at(NOW + 49) == "old"
    assert await next_at(NOW + 50) == "held"  # its verifier is lost
    await put(with_swarm, taken(until_ms=NOW + 90, task_id="held", asked_at_ms=NOW - 9))
    assert await next_at(NOW + 70) == "later"  # postponed for long enough
    for name in ("old", "new", "later"):
        await put(with_swarm, ended(task_id=name))
    assert await next_at(NOW + 89) is None


async def test_next_claim_at_ms_is_when_the_next_claim_can_be_taken(with_swarm: OpenStore) -> None:
    async def next_at() -> int | None:
        return await with_swarm.read(lambda tx: tx.next_claim_at_ms("v"))

    assert await next_at() is None
    await put(with_swarm, ended(task_id="over"))
    assert await next_at() is None
    await put(with_swarm, taken(until_ms=NOW + 50), claim(1, "u", taken_until_ms=NOW + 40))
    assert await next_at() == NOW + 40
    await put(with_swarm, claim(1, "fresh"))
    assert await next_at() == 0


async def test_the_claims_of_a_lost_verifier_are_released(with_swarm: OpenStore) -> None:
    await put(
        with_swarm,
        taken(1),
        taken(1, task_id="u", taken_by="other"),
        ended(1, task_id="over"),
        taken(1, task_id="tried", tries=2),
    )
    assert await with_swarm.write(lambda tx: tx.free_claims_of("v")) == 2
    assert await claim_of(with_swarm) == claim()
    assert await claim_of(with_swarm, task_id="tried") == claim(task_id="tried", tries=2)
    assert await claim_of(with_swarm, task_id="u") == taken(1, task_id="u", taken_by="other")
    assert await claim_of(with_swarm, task_id="over") == ended(1, task_id="over")


async def test_a_verdict_is_delivered_once(with_swarm: OpenStore) -> None:
    await put(with_swarm, ended(), claim(2))
    for at_ms in (NOW + 10, NOW + 20):
        for one in (ended(), claim(2)):
            await with_swarm.write(lambda tx, o=one, a=at_ms: tx.mark_verdict_delivered(o, a))  # type: ignore[misc]
    assert await claim_of(with_swarm) == ended(heard_at_ms=NOW + 10)
    assert await claim_of(with_swarm, 2) == claim(2)


# -- ownership


async def test_reservations_are_found_by_their_repo(with_swarm: OpenStore) -> None:
    await with_swarm.add_swarm("swarm-2")
    others = [reservation("b"), reservation("a", swarm_id="swarm-2"), reservation("x", repo="/y")]

    def write(tx: Transaction) -> None:
        for one in (*others, reservation("a", patterns=["old"])):
            tx.reserve(one, NOW)
        tx.reserve(reservation("a"), NOW + 1)

    async def held() -> list[tuple[str, str, list[str]]]:
        found = await with_swarm.read(lambda tx: tx.reservations_of_repo("/repo"))
        assert all(one.repo == "/repo" for one in found)
        return [(one.swarm_id, one.task_id, one.patterns) for one in found]

    await with_swarm.write(write)
    patterns = reservation().patterns
    assert await held() == [
        (SWARM, "a", patterns),
        (SWARM, "b", patterns),
        ("swarm-2", "a", patterns),
    ]
    await with_swarm.write(lambda tx: tx.release(SWARM, "a"))
    await with_swarm.write(lambda tx: tx.release(SWARM, "never reserved"))
    assert await held() == [(SWARM, "b", patterns), ("swarm-2", "a", patterns)]


async def test_holding_a_repo_excludes_other_writers(store_address: str) -> None:
    """Each writer adds a row named after its count; concurrent counts would be equal."""

    def add_one(tx: Transaction, name: str) -> int:
        tx.take_swarm(name)
        tx.hold_repo("/repo")
        count = len(tx.reservations_of_repo("/repo"))
        tx.reserve(reservation(f"t{count}", swarm_id=name), NOW)
        return count

    async with opened(store_address) as store:
        names = [f"swarm-{number}" for number in range(12)]
        for name in names:
            await store.add_swarm(name)
        counts = await asyncio.gather(
            *(store.write(lambda tx, n=name: add_one(tx, n), name) for name in names)  # type: ignore[misc]
        )
    assert sorted(counts) == list(range(12))


async def test_a_scope_request_is_numbered_and_decided_once(
    with_swarm: OpenStore,
) -> None:
    await with_swarm.add_swarm("swarm-2")
    asked = scope_request(question_id=7)
    assert await with_swarm.write(lambda tx: tx.add_scope_request(asked)) == 1
    assert await with_swarm.write(lambda tx: tx.add_scope_request(scope_request())) == 2
    elsewhere = scope_request(swarm_id="swarm-2")
    assert await with_swarm.write(lambda tx: tx.add_scope_request(elsewhere), "swarm-2") == 1
    stored = asked._replace(request_id=1)
    assert await with_swarm.read(lambda tx: tx.scope_request(SWARM, 1)) == stored
    assert await with_swarm.read(lambda tx: tx.scope_request(SWARM, 3)) is None

    granted = stored._replace(state="granted", decided_at_ms=NOW + 1, decision="ja ✓")
    refused = granted._replace(state="refused", decision="no")
    assert await with_swarm.write(lambda tx: tx.decide_scope_request(granted)) is True
    assert await with_swarm.write(lambda tx: tx.decide_scope_request(refused)) is False
    assert await with_swarm.read(lambda tx: tx.scope_request(SWARM, 1)) == granted

    async def listed(only_open: bool, limit: int = 9) -> list[int]:
        found = await with_swarm.read(
            lambda tx: tx.scope_requests(SWARM, limit, only_open=only_open)
        )
        return [one.request_id for one in found]

    async def ask() -> int:
        question = Question(SWARM, 0, "t-1", 2, "w", "operator", "more files?", NOW)
        question_id = await with_swarm.write(lambda tx: tx.add_question(question))
        asked = scope_request(question_id=question_id)
        await with_swarm.write(lambda tx: tx.add_scope_request(asked))
        return question_id

    # One without an open question no longer counts.
    assert await listed(only_open=True) == []
    first, _ = await ask(), await ask()
    assert await listed(only_open=True) == [3, 4]
    assert await listed(only_open=True, limit=1) == [3]
    await with_swarm.write(lambda tx: tx.answer_question(SWARM, first, "no", NOW))
    assert await listed(only_open=True) == [4]
    assert await listed(only_open=False) == [4, 3, 2, 1]
    assert await listed(only_open=False, limit=2) == [4, 3]


@pytest.mark.requirement("HO-09")
async def test_a_question_belongs_to_its_scope_request_until_that_is_decided(
    with_swarm: OpenStore,
) -> None:
    asked = scope_request(question_id=7)
    await with_swarm.write(lambda tx: tx.add_scope_request(asked))
    await with_swarm.write(lambda tx: tx.add_scope_request(scope_request()))

    async def found(question_id: int, swarm_id: str = SWARM) -> ScopeRequest | None:
        return await with_swarm.read(lambda tx: tx.scope_request_of_question(swarm_id, question_id))

    assert await found(7) == asked._replace(request_id=1)
    assert await found(8) is None
    assert await found(7, "elsewhere") is None
    decided = asked._replace(request_id=1, state="refused", decided_at_ms=NOW)
    await with_swarm.write(lambda tx: tx.decide_scope_request(decided))
    assert await found(7) is None


@pytest.mark.parametrize(
    "wrong",
    [
        scope_request(state="perhaps"),
        scope_request(state="granted"),
        scope_request(decided_at_ms=NOW),
    ],
)
async def test_the_schema_rejects_an_invalid_scope_request(
    with_swarm: OpenStore, wrong: ScopeRequest
) -> None:
    with pytest.raises(StoreUnavailable):
        await with_swarm.write(lambda tx: tx.add_scope_request(wrong))
    assert await with_swarm.read(lambda tx: tx.scope_request(SWARM, 1)) is None


@pytest.mark.requirement("HO-09")
async def test_a_waiver_is_stored_once_per_subject(with_swarm: OpenStore) -> None:
    first = Waiver(check="scope", subject="ü.py", reason="agreed", granted_by="Zoë")
    again = first.model_copy(update={"reason": "because", "granted_by": "Max"})
    other = first.model_copy(update={"check": "criterion", "subject": "*"})
    for at_ms, one in enumerate((first, other, again), start=NOW):
        await with_swarm.write(lambda tx, o=one, a=at_ms: tx.put_waiver(SWARM, "t", o, a))  # type: ignore[misc]
    assert await with_swarm.read(lambda tx: tx.waivers(SWARM, "t")) == [other, again]
    assert await with_swarm.read(lambda tx: tx.waivers(SWARM, "u")) == []


# -- receipts and signals


@pytest.mark.requirement("OWN-02")
async def test_receipts_are_stored_once_and_paged_in_order(with_swarm: OpenStore) -> None:
    rows = [
        receipt(2, accepted_at_ms=NOW + 5),
        receipt(3, task_id="u"),
        receipt(1, body='{"r": "é"}'),
    ]

    def write(tx: Transaction) -> None:
        for one in (*rows, receipt(3, body="forged", title="x")):
            tx.add_receipt(one)

    await with_swarm.write(write)

    async def page(after: tuple[int, str], limit: int = 9) -> list[str]:
        found = await with_swarm.read(lambda tx: tx.receipts_after(after, limit))
        return [one.receipt_id for one in found]

    assert await page((0, "")) == ["rcpt-1", "rcpt-3", "rcpt-2"]
    assert await page((0, ""), 2) == ["rcpt-1", "rcpt-3"]
    assert await page((NOW, "rcpt-1")) == ["rcpt-3", "rcpt-2"]
    assert await page((NOW + 5, "rcpt-2")) == []
    assert await with_swarm.read(lambda tx: tx.receipt_of_task(SWARM, "t")) == rows[0]
    assert await with_swarm.read(lambda tx: tx.receipt_of_task(SWARM, "u")) == rows[1]
    assert await with_swarm.read(lambda tx: tx.receipt_of_task(SWARM, "v")) is None
    assert await with_swarm.read(lambda tx: tx.receipt("rcpt-3")) == rows[1]
    assert await with_swarm.read(lambda tx: tx.receipt("rcpt-9")) is None


@pytest.mark.requirement("HO-04")
async def test_the_newest_planned_commits_of_a_repository_are_listed(
    with_swarm: OpenStore,
) -> None:
    rows = [
        receipt(number, accepted_at_ms=NOW + number, task_id=f"t{number}", planned=True)
        for number in range(1, 5)
    ]
    unplanned = receipt(8, accepted_at_ms=NOW + 8)

    def write(tx: Transaction) -> None:
        for one in (*rows, unplanned, receipt(9, repo_id="/other/.git", planned=True)):
            tx.add_receipt(one)

    await with_swarm.write(write)

    async def newest(repo_id: str, limit: int = 9) -> list[str]:
        return await with_swarm.read(lambda tx: tx.newest_planned_commits(repo_id, limit))

    commits = [row.commit_sha for row in reversed(rows)]
    assert await newest("/repo/.git") == commits
    assert await newest("/repo/.git", 2) == commits[:2]
    assert await newest("/nowhere/.git") == []


@pytest.mark.requirement("HO-04")
@pytest.mark.parametrize("planned", [True, False])
async def test_every_query_of_a_receipt_says_as_a_boolean_whether_it_was_planned(
    with_swarm: OpenStore, planned: bool
) -> None:
    row = receipt(planned=planned)
    await with_swarm.write(lambda tx: tx.add_receipt(row))
    by_id, by_task, paged = await with_swarm.read(
        lambda tx: (
            tx.receipt(row.receipt_id),
            tx.receipt_of_task(SWARM, row.task_id),
            tx.receipts_after((0, ""), 9)[0],
        )
    )
    for found in (by_id, by_task, paged):
        assert found is not None
        assert found.planned is planned


@pytest.mark.requirement("HO-08")
async def test_signals_are_stored_once_and_listed_newest_first(with_swarm: OpenStore) -> None:
    rows = [
        signal(1),
        signal(2, kind="completion", impact="positive", violation_type=None),
        signal(1, at_ms=NOW + 5, kind="failure"),
    ]

    def write(tx: Transaction) -> None:
        for one in (*rows, signal(1, details="{}"), signal(3, strategy="risk-based")):
            tx.add_signal(one)

    await with_swarm.write(write)
    newest = [rows[2], rows[1], rows[0]]
    assert await with_swarm.read(lambda tx: tx.signals("file-based", 9)) == newest
    assert await with_swarm.read(lambda tx: tx.signals("file-based", 2)) == newest[:2]
    for wrong in (signal(9, kind="guess"), signal(9, impact="mixed")):
        with pytest.raises(StoreUnavailable):
            await with_swarm.write(lambda tx, w=wrong: tx.add_signal(w))  # type: ignore[misc]


@pytest.mark.requirement("HO-08")
async def test_concurrent_writers_all_count_in_a_strategys_record(store_address: str) -> None:
    """Swarms are written concurrently if the store allows it; no sample is lost."""

    def learn(tx: Transaction, name: str) -> None:
        tx.take_swarm(name)
        record = tx.take_strategy("file-based") or StrategyRecord("file-based")
        tx.put_strategy(
            StrategyRecord("file-based", record.wins + 0.5, 0.25, record.samples + 1, NOW)
        )

    async with opened(store_address) as store:
        names = [f"swarm-{number}" for number in range(12)]
        for name in names:
            await store.add_swarm(name)
        await asyncio.gather(
            *(store.write(lambda tx, n=name: learn(tx, n), name) for name in names)  # type: ignore[misc]
        )
        await store.write(lambda tx: tx.put_strategy(StrategyRecord("a", 1.5, 2.5, 4, NOW)))
        found = await store.read(lambda tx: tx.strategies())
    assert found == [
        StrategyRecord("a", 1.5, 2.5, 4, NOW),
        StrategyRecord("file-based", 6.0, 0.25, 12, NOW),
    ]


@pytest.mark.requirement("OWN-02", "HO-08")
async def test_receipts_and_strategy_records_outlive_their_swarm(with_swarm: OpenStore) -> None:
    waiver = Waiver(check="scope", subject="*", reason="r", granted_by="o")

    def write(tx: Transaction) -> None:
        tx.take_swarm(SWARM)
        tx.add_handoff(handoff())
        tx.put_claim(claim())
        tx.reserve(reservation(), NOW)
        tx.add_scope_request(scope_request())
        tx.put_waiver(SWARM, "t", waiver, NOW)
        tx.add_receipt(receipt())
        tx.add_signal(signal())

    await with_swarm.write(write)
    await with_swarm.write(lambda tx: tx.delete_swarm(SWARM))
    await with_swarm.add_swarm()

    def left(tx: Transaction) -> list[object]:
        return [
            tx.handoff(SWARM, "t"),
            tx.last_claim(SWARM, "t"),
            tx.next_claim_at_ms("v"),
            tx.scope_request(SWARM, 1),
        ]

    assert await with_swarm.read(left) == [None] * 4
    assert await with_swarm.read(lambda tx: tx.waivers(SWARM, "t")) == []
    assert await with_swarm.read(lambda tx: tx.reservations_of_repo("/repo")) == []
    assert await with_swarm.read(lambda tx: tx.receipt_of_task(SWARM, "t")) == receipt()
    assert await with_swarm.read(lambda tx: tx.signals("file-based", 9)) == [signal()]
