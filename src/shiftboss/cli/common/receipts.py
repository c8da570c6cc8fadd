"""Reading the server's receipts, the key that verifies them, and what a receipt proves."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from shiftboss.cli.common.client import Client, parse_answer
from shiftboss.cli.common.pages import bus_pages
from shiftboss.errors import InvalidReceipt, ShiftbossError

if TYPE_CHECKING:
    from shiftboss.protocol.claims.receipts import ReceiptBody


# A receipt that was being signed when its key was retired; clocks of servers differ a little.
RETIREMENT_GRACE: Final = timedelta(minutes=1)


class CannotRead(ShiftbossError):
    code = "cannot_read"
    title = "The file cannot be read"


def receipt_pages(client: Client, limit: int | None) -> list[bytes]:
    """The receipts of all swarms."""
    return bus_pages(client, "list_receipts", None, limit)


def keys_of(client: Client) -> list[dict[str, Any]]:
    """The keys that have signed receipts, the oldest first. They come with every list."""
    keys: list[dict[str, Any]] = parse_answer(receipt_pages(client, 1)[0], "keys")["keys"]
    return keys


def check_not_retired(proven: list[dict[str, Any]], keys: list[dict[str, Any]]) -> None:
    """A thief of a key can sign with it after it was retired. Raises InvalidReceipt."""

    retired_at = {key["key_id"]: key["retired_at"] for key in keys if key.get("retired_at")}
    for facts in proven:
        end = retired_at.get(facts["key_id"])
        if end is not None and is_signed_after(facts["accepted_at"], end):
            raise InvalidReceipt(
                f"The key {facts['key_id']} was retired at {end}, before the receipt was accepted "
                f"at {facts['accepted_at']}",
                field="key_id",
            )


def public_key_of(client: Client) -> str:
    """The key that verifies the server's receipts. It comes with every list of them."""
    pem: str = parse_answer(receipt_pages(client, 1)[0], "public_key")["public_key"]
    return pem


def read_note_of(name: str) -> tuple[str, bytes]:
    """The full id of a commit of the repository here, and its note."""
    # Imported late: everyday commands do without.
    import asyncio

    return asyncio.run(_read_note(name))


async def _read_note(name: str) -> tuple[str, bytes]:
    from shiftboss.orchestrator.git.notes import read_note
    from shiftboss.orchestrator.git.repository import GitRepo

    repo = await GitRepo.at(Path.cwd())
    commit = await repo.commit_of(name)
    if commit is None:
        raise CannotRead(f"there is no commit {name} in the repository {Path.cwd()}")
    return commit, await read_note(repo, commit)


def proven_by_file(content: bytes, pem: str) -> list[dict[str, Any]]:
    """The receipt in a file, plain or in an envelope, once it has been verified."""
    # Imported late: only this command needs cryptography.
    from shiftboss.evidence import attestations
    from shiftboss.evidence.receipt_verification import read_receipt, verify_receipt
    from shiftboss.protocol.claims.attestations import LandingBody

    if not attestations.is_envelope(content):
        signed = read_receipt(content)
        verify_receipt(signed, pem)
        return [_facts(signed.receipt, signed.key_id)]
    envelope = attestations.read_envelope(content)
    body = attestations.verify_envelope(envelope, pem)
    if isinstance(body, LandingBody):
        raise InvalidReceipt(
            f"This is the landing of the receipt {body.receipt_id}, not the receipt",
            hint=f"shiftboss receipt verify --commit {body.landed_as}",
        )
    return [_facts(body, attestations.signer_of(envelope, pem))]


def proven_by_note(content: bytes, commit: str, pem: str) -> list[dict[str, Any]]:
    """The receipt in the note of a commit, once it has been verified."""
    from shiftboss.evidence.attestations import verify_note

    return [
        _facts(noted.receipt, noted.key_id)
        | ({} if noted.landing is None else {"landed_as": commit, "target": noted.landing.target})
        for noted in verify_note(content, commit, pem)
    ]


def _facts(body: ReceiptBody, key_id: str) -> dict[str, Any]:
    return {
        "key_id": key_id,
        "receipt_id": body.receipt_id,
        "swarm_id": body.swarm_id,
        "bead_id": body.bead_id,
        "repo": body.repo,
        "commit": body.commit,
        "accepted_at": body.accepted_at,
        "not_checked": [
            check.subject or check.check for check in body.checks if check.outcome == "unverifiable"
        ],
        "waivers": [waiver.model_dump() for waiver in body.waivers],
    }


def is_signed_after(accepted_at: str, retired_at: str) -> bool:
    """Whether a receipt says that it was accepted when its key was retired already."""
    accepted, retired = map(datetime.fromisoformat, (accepted_at, retired_at))
    return accepted > retired + RETIREMENT_GRACE
