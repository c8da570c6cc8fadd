"""Receipts of accepted claims: shown, listed and exported, on both stores."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shiftboss.errors import Conflict, InvalidRequest, UnknownReceipt, UnknownTask
from shiftboss.evidence.attestations import read_envelope, verify_envelope, verify_note
from shiftboss.evidence.receipt_verification import read_receipt, verify_receipt
from shiftboss.protocol.claims.claim_requests import (
    ExportReceiptRequest,
    ListReceiptsRequest,
    ReceiptRequest,
)
from shiftboss.protocol.claims.receipts import ReceiptBodyV1, ReceiptBodyV3
from shiftboss.protocol.handoff_requests import WaiveRequest
from shiftboss.protocol.handoffs import canonical_json
from shiftboss.rules.runs.squash import squash_message
from shiftboss.store.handoffs.port import ReceiptRow
from tests.conformance.handoffs.handoff_fixtures import HandoffFixture
from tests.repos import Repo
from tests.verifying import LocalEvidence

pytestmark = pytest.mark.anyio

OLD_RECEIPT = Path(__file__).parents[2] / "unit" / "claims" / "receipt_format_1.json"


@pytest.mark.requirement("OWN-02")
async def test_the_receipt_is_signed_and_says_what_was_found(
    handoffs: HandoffFixture, evidence: LocalEvidence
) -> None:
    spawned = await handoffs.spawn("t", strategy="file-based")
    await handoffs.handoff_service.waive(
        WaiveRequest(bead_id="t", check="scope", subject="README.md", reason="agreed")
    )
    await handoffs.claim("t", summary="did it", name="w")
    job = await handoffs.accept(lines_added=4)
    assert [waiver.subject for waiver in job.waivers] == ["README.md"]
    found = await handoffs.coordinator.receipts.show_receipt(ReceiptRequest(bead_id="t"))
    signed = read_receipt(canonical_json(found.signed_receipt))
    verify_receipt(signed, found.public_key)
    assert found.public_key == evidence.public_key
    receipt = signed.receipt
    assert (receipt.contract_hash, receipt.contract_version) == (spawned.contract_hash, 1)
    assert (receipt.worker, receipt.summary, receipt.strategy) == ("w", "did it", "file-based")
    assert (receipt.base_commit, receipt.diff.lines_added) == (handoffs.repo.base, 4)
    assert [(waiver.subject, waiver.reason, waiver.granted_by) for waiver in receipt.waivers] == [
        ("README.md", "agreed", "operator")
    ]


@pytest.mark.requirement("OWN-02")
async def test_a_clock_that_is_set_back_does_not_invalidate_the_receipt(
    handoffs: HandoffFixture,
) -> None:
    await handoffs.spawn("t")
    await handoffs.claim("t")
    handoffs.clock.now_ms -= 3_600_000
    await handoffs.accept()
    found = await handoffs.coordinator.receipts.show_receipt(ReceiptRequest(bead_id="t"))
    verify_receipt(read_receipt(canonical_json(found.signed_receipt)), found.public_key)


@pytest.mark.requirement("OWN-02")
async def test_receipts_are_listed_a_page_at_a_time(handoffs: HandoffFixture) -> None:
    for name in ("a", "b", "c"):
        await handoffs.finished(name)
        handoffs.clock.now_ms += 1
    first = await handoffs.coordinator.receipts.list_receipts(ListReceiptsRequest(limit=2))
    assert [receipt.bead_id for receipt in first.receipts] == ["a", "b"]
    assert first.next_after is not None
    rest = await handoffs.coordinator.receipts.list_receipts(
        ListReceiptsRequest(after=first.next_after, limit=2)
    )
    assert [(receipt.bead_id, receipt.title) for receipt in rest.receipts] == [("c", "Title of c")]
    assert rest.next_after is None
    for wrong in ("x", "1", ":a", "9" * 30 + ":a", "٣:a"):
        with pytest.raises(InvalidRequest):
            await handoffs.coordinator.receipts.list_receipts(ListReceiptsRequest(after=wrong))


@pytest.mark.requirement("OWN-18")
async def test_a_receipt_is_exported_as_an_envelope_by_task_and_by_id(
    handoffs: HandoffFixture,
) -> None:
    await handoffs.finished("t")
    receipts = handoffs.coordinator.receipts
    by_task = await receipts.export_receipt(ExportReceiptRequest(bead_id="t"))
    body = verify_envelope(read_envelope(canonical_json(by_task.receipt)), by_task.public_key)
    assert isinstance(body, ReceiptBodyV3)
    assert (body.bead_id, body.commit) == ("t", by_task.commit)
    assert by_task.landing is None
    by_id = await receipts.export_receipt(ExportReceiptRequest(bead_id=by_task.receipt_id))
    assert by_id == by_task
    shown = await receipts.show_receipt(ReceiptRequest(bead_id=by_task.receipt_id))
    assert shown.signed_receipt["receipt"] == body.model_dump(mode="json")
    await handoffs.spawn("unproven")
    with pytest.raises(UnknownReceipt):
        await receipts.export_receipt(ExportReceiptRequest(bead_id="unproven"))
    with pytest.raises(UnknownTask):
        await receipts.export_receipt(ExportReceiptRequest(bead_id="rcpt-0"))


@pytest.mark.requirement("OWN-18")
async def test_a_stored_receipt_of_format_1_is_shown_and_exported(
    handoffs: HandoffFixture,
) -> None:
    text = OLD_RECEIPT.read_text()
    row = ReceiptRow("r-1", "s-1", "bd-123.2", "Title", text, 1, "repo", "b" * 40)
    await handoffs.coordinator.store.write(lambda tx: tx.add_receipt(row), handoffs.swarm_id)
    receipts = handoffs.coordinator.receipts
    shown = await receipts.show_receipt(ReceiptRequest(bead_id="r-1"))
    assert shown.signed_receipt == json.loads(text)
    exported = await receipts.export_receipt(ExportReceiptRequest(bead_id="r-1"))
    body = verify_envelope(read_envelope(canonical_json(exported.receipt)), exported.public_key)
    assert isinstance(body, ReceiptBodyV1)
    assert body.model_dump(mode="json") == json.loads(text)["receipt"]


@pytest.mark.requirement("OWN-18")
async def test_the_server_vouches_for_a_squash_after_it_has_looked_at_it(
    handoffs: HandoffFixture, tmp_path: Path
) -> None:
    repo = Repo(tmp_path / "repo")
    await handoffs.spawn("t", repo=str(repo.path), target="main", landing="squash")
    commit = repo.commit("work", {"src/t.py": "x = 1\n"})
    await handoffs.claim("t", commit=commit)
    await handoffs.accept()
    message = squash_message("T", bead_id="t", swarm_id="s", receipt_id=None, commit=commit)
    squash = repo.git("commit-tree", f"{commit}^{{tree}}", "-p", "main", "-m", message)
    receipts = handoffs.coordinator.receipts
    request = ExportReceiptRequest(bead_id="t", landed_as=squash)
    with pytest.raises(Conflict, match="is not a squash of") as refused:
        await receipts.export_receipt(request)
    assert refused.value.field == "landed_as"
    repo.git("update-ref", "refs/heads/main", squash)
    exported = await receipts.export_receipt(request)
    note = b"\n".join(canonical_json(each) for each in (exported.landing, exported.receipt))
    (proven,) = verify_note(note, squash, exported.public_key)
    assert proven.landing is not None
    assert (proven.landing.target, proven.landing.commit) == ("main", commit)
