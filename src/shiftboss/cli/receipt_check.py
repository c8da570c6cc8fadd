"""shiftboss receipt verify: whether a receipt is genuine, also without its server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shiftboss.cli.connection import connected
from shiftboss.cli.options import DEFAULT_SERVER, Server, TokenFile
from shiftboss.cli.output import print_json, say
from shiftboss.cli.receipt_pages import public_key_of
from shiftboss.errors import InvalidReceipt, ShiftbossError

if TYPE_CHECKING:
    from shiftboss.protocol.receipts import SignedReceipt


class CannotRead(ShiftbossError):
    code = "cannot_read"
    title = "The file cannot be read"


def verify(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `receipt export` wrote.")],
    key: Annotated[
        Path | None,
        typer.Option(
            metavar="PEM", help="The public key, in a file; then no server is asked for it."
        ),
    ] = None,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Check that a receipt is genuine: signed with the key, and unchanged since."""
    content = _read(file)
    if key is not None:
        pem, source = _read(key).decode(errors="replace"), str(key)
    else:
        with connected(server, token_file, as_json=as_json) as client:
            pem, source = public_key_of(client), client.address
    try:
        signed = _checked(content, pem)
    except InvalidReceipt as error:
        if not as_json:
            raise _forged(file, error) from error
        print_json(json.dumps({"genuine": False, "error": error.detail}).encode())
        raise typer.Exit(1) from None
    if as_json:
        print_json(json.dumps(_facts(signed)).encode())
    else:
        _tell(file, _facts(signed), source, asked=key is None)


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise CannotRead(f"cannot read {file}: {error.strerror}") from error


def _checked(content: bytes, pem: str) -> SignedReceipt:
    # Only this command pays for the cryptography.
    from shiftboss.evidence.receipts import read_receipt, verify_receipt

    signed = read_receipt(content)
    verify_receipt(signed, pem)
    return signed


def _forged(file: Path, error: InvalidReceipt) -> InvalidReceipt:
    return InvalidReceipt(f"{file} is not genuine: {error.detail}", hint=error.hint)


def _facts(signed: SignedReceipt) -> dict[str, Any]:
    body = signed.receipt
    return {
        "genuine": True,
        "key_id": signed.key_id,
        "receipt_id": body.receipt_id,
        "swarm_id": body.swarm_id,
        "bead_id": body.bead_id,
        "repo": body.repo,
        "commit": body.commit,
        "accepted_at": body.accepted_at,
        "not_checked": [
            one.subject or one.check for one in body.checks if one.outcome == "unverifiable"
        ],
        "waivers": [one.model_dump() for one in body.waivers],
    }


def _tell(file: Path, facts: dict[str, Any], source: str, *, asked: bool) -> None:
    say(f"{file} is genuine: receipt {facts['receipt_id']}, signed with key {facts['key_id']}")
    say(f"{facts['bead_id']} was accepted at {facts['accepted_at']}, commit {facts['commit']}")
    for subject in facts["not_checked"]:
        say(f"not checked by a command: {subject}")
    for waiver in facts["waivers"]:
        say(f"waived by {waiver['granted_by']}: {waiver['check']} ({waiver['reason']})")
    if asked:
        say(f"the key is the one that {source} gave; with --key no server has to be believed")
