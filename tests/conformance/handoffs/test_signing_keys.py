"""Several servers, several keys: a receipt verifies by the key that it names, on both stores."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from shiftboss.errors import EvidenceUnavailable, InvalidRequest, UnknownKey
from shiftboss.evidence.keys import KEY_FILE, SigningKey, key_id_of
from shiftboss.evidence.receipt_verification import public_key, read_receipt, verify_receipt
from shiftboss.protocol.claims.claim_requests import (
    ExportReceiptRequest,
    ListReceiptsRequest,
    ReceiptAnswer,
    ReceiptRequest,
)
from shiftboss.protocol.deployment.keys import AddKeyRequest, RetireKeyRequest
from shiftboss.protocol.handoffs import canonical_json
from shiftboss.rules.access.actors import Actor
from shiftboss.rules.access.roles import Role
from shiftboss.store.current_actor import CURRENT_ACTOR
from tests.conformance.handoffs.handoff_fixtures import HandoffFixture, accepted, open_handoffs
from tests.repos import Repo
from tests.verifying import LocalEvidence
from tests.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("OWN-02")]


class Deployment:
    """Servers with separate state folders on one database, one after the other."""

    def __init__(self, address: str, folder: Path, repo: Repo) -> None:
        self.address = address
        self.folder = folder
        self.repo = repo

    @asynccontextmanager
    async def server(self, name: str) -> AsyncIterator[HandoffFixture]:
        evidence = LocalEvidence(self.folder / name, str(self.repo.path))
        async with open_handoffs(self.address, evidence, self.repo) as handoffs:
            yield handoffs

    def key(self, name: str) -> SigningKey:
        return SigningKey.load_or_create(self.folder / name / KEY_FILE)


@pytest.fixture
def deployment(store_address: str, tmp_path: Path, repo: Repo) -> Deployment:
    return Deployment(store_address, tmp_path / "states", repo)


def check(answer: ReceiptAnswer) -> str:
    """The id of the key; the receipt verifies with the key that comes with it."""
    signed = read_receipt(canonical_json(answer.signed_receipt))
    verify_receipt(signed, answer.public_key)
    return signed.key_id


async def shown(handoffs: HandoffFixture, task: str) -> ReceiptAnswer:
    return await handoffs.coordinator.receipts.show_receipt(ReceiptRequest(bead_id=task))


async def states(handoffs: HandoffFixture) -> dict[str, bool]:
    """The keys of the store, and whether each is retired."""
    listing = await handoffs.coordinator.receipts.list_receipts(ListReceiptsRequest())
    return {key.key_id: key.retired_at is not None for key in listing.keys}


async def retire(handoffs: HandoffFixture, key_id: str) -> str:
    """The key that the server signs with after that."""
    answer = await handoffs.coordinator.keys.retire_key(RetireKeyRequest(key_id=key_id))
    return answer.signing_key_id


async def test_a_receipt_is_shown_with_the_key_of_the_server_that_signed_it(
    deployment: Deployment,
) -> None:
    async with deployment.server("one") as one:
        await one.finished("a")
    async with deployment.server("other") as other:
        await other.finished("b")
        keys = [deployment.key(name).key_id for name in ("one", "other")]
        assert [check(await shown(other, task)) for task in ("a", "b")] == keys
        assert await states(other) == dict.fromkeys(keys, False)
        exported = await other.coordinator.receipts.export_receipt(
            ExportReceiptRequest(bead_id="a")
        )
        assert key_id_of(public_key(exported.public_key)) == keys[1]


async def test_a_retired_key_signs_no_more_and_its_receipts_stay_genuine(
    deployment: Deployment,
) -> None:
    async with deployment.server("one") as one:
        await one.finished("a")
        former = deployment.key("one").key_id
        caller = CURRENT_ACTOR.set(Actor("alice", Role.OPERATOR))
        new = await retire(one, former)
        CURRENT_ACTOR.reset(caller)
        assert new == deployment.key("one").key_id != former
        assert await states(one) == {former: True, new: False}
        await one.finished("b")
        assert [check(await shown(one, task)) for task in ("a", "b")] == [former, new]
        listing = await one.coordinator.receipts.list_receipts(ListReceiptsRequest())
        assert {(key.added_by, key.retired_by) for key in listing.keys} == {
            ("server", "alice"),
            ("server", None),
        }
        assert await retire(one, former) == new, "a repeat changes nothing"
    async with deployment.server("one") as one:
        assert await states(one) == {former: True, new: False}


async def test_a_server_that_was_down_replaces_its_retired_key_when_it_starts(
    deployment: Deployment,
) -> None:
    former = deployment.key("one").key_id
    async with deployment.server("one"):
        pass
    async with deployment.server("other") as other:
        await retire(other, former)
        assert deployment.key("one").key_id == former
    async with deployment.server("one") as one:
        await one.finished("a")
        assert check(await shown(one, "a")) == deployment.key("one").key_id != former


async def test_servers_that_share_a_key_file_share_its_replacement(
    postgres_url: str, tmp_path: Path, repo: Repo
) -> None:
    deployment = Deployment(postgres_url, tmp_path / "states", repo)
    async with deployment.server("shared") as one, deployment.server("shared") as other:
        former = one.coordinator.keys.own_key_id
        assert other.coordinator.keys.own_key_id == former
        new = await retire(one, former)
        await eventually(
            lambda: other.coordinator.keys.own_key_id == new, "the other server signs with it"
        )
        assert await states(other) == {former: True, new: False}


async def test_nothing_is_signed_with_a_key_that_another_server_has_just_retired(
    deployment: Deployment,
) -> None:
    """Before the announcement has arrived."""
    async with deployment.server("one") as one:
        await one.spawn("a")
        await one.claim("a")
        job = await one.taken()
        key_id = one.coordinator.keys.own_key_id
        await one.coordinator.store.write(
            lambda tx: tx.retire_signing_key(key_id, 1, "other"), partition=""
        )
        with pytest.raises(EvidenceUnavailable, match="retired"):
            await one.report(job, accepted(job))
        assert (await one.last_claim("a")).state == "taken"
        await one.coordinator.settings.read()
        assert await one.report(job, accepted(job)) == "accepted"
        assert check(await shown(one, "a")) != key_id


async def test_a_key_that_cannot_be_replaced_is_a_problem_of_the_server(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with deployment.server("one") as one:

        def refuse(_path: Path, _target: Path) -> Path:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(Path, "replace", refuse)
        former = one.coordinator.keys.own_key_id
        assert await retire(one, former) == former
        problem = one.coordinator.keys.problem
        assert problem is not None
        assert "cannot be replaced" in problem
        monkeypatch.undo()
        await one.coordinator.settings.read()
        assert one.coordinator.keys.problem is None
        assert one.coordinator.keys.own_key_id != former


async def test_the_key_of_a_server_that_is_gone_can_be_added(deployment: Deployment) -> None:
    async with deployment.server("gone") as gone:
        await gone.finished("a")
    pem = deployment.key("gone").public_pem
    async with deployment.server("one") as one:
        await one.coordinator.store.write(_forget_key, partition="")
        assert (await shown(one, "a")).public_key == ""
        await one.coordinator.keys.add_key(AddKeyRequest(public_key=pem))
        assert check(await shown(one, "a")) == deployment.key("gone").key_id
        with pytest.raises(InvalidRequest):
            await one.coordinator.keys.add_key(AddKeyRequest(public_key="no key"))
        with pytest.raises(UnknownKey):
            await retire(one, "0" * 16)


def _forget_key(tx: object) -> None:
    """As in a database of a version that did not keep the keys."""
    session = tx._session  # type: ignore[attr-defined]
    connection = session._connection
    connection.execute("DELETE FROM signing_keys")
