"""shiftboss receipt: what was accepted, signed by the server, and the check of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shiftboss.cli.common.bus_calls import ask
from shiftboss.cli.common.client import connected, parsed
from shiftboss.cli.common.options import (
    DEFAULT_SERVER,
    DEFAULT_SWARM,
    AsJson,
    Server,
    Swarm,
    TaskId,
    TokenFile,
)
from shiftboss.cli.common.output import print_json, print_text, say, show
from shiftboss.cli.common.pages import joined_receipts, public_key_of, receipt_pages
from shiftboss.cli.views.times import now
from shiftboss.errors import InvalidReceipt, ShiftbossError

if TYPE_CHECKING:
    from shiftboss.protocol.receipts import SignedReceipt


# shiftboss receipt verify: whether a receipt is genuine, also without its server.


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


receipt = typer.Typer(
    help="See and check the signed receipts of completed tasks.", no_args_is_help=True
)
receipt.command()(verify)


class CannotWrite(ShiftbossError):
    code = "cannot_write"
    title = "The file cannot be written"


@receipt.command("list")
def list_receipts(
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="How many, oldest first.")] = 100,
    show_all: Annotated[bool, typer.Option("--all", help="All there are.")] = False,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """List the receipts of all swarms, in the order of their acceptance."""
    with connected(server, token_file, as_json=as_json) as client:
        pages = receipt_pages(client, None if show_all else limit)
    if as_json:
        print_json(pages[0] if len(pages) == 1 else json.dumps(joined_receipts(pages)).encode())
        return
    listing = joined_receipts(pages)
    if not listing["receipts"]:
        say("no receipts")
        return
    # rich is for those who look at something.
    from shiftboss.cli.views.handoffs import receipts_table

    show(receipts_table(listing["receipts"], now()))
    if listing["next_after"] is not None:
        say("there are more: shiftboss receipt list --all")


@receipt.command("show")
def show_receipt(
    task_id: TaskId,
    swarm: Swarm = DEFAULT_SWARM,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Show the receipt of a task: commit, checks, waivers."""
    answer = ask(server, token_file, "show_receipt", swarm, as_json=as_json, bead_id=task_id)
    if as_json:
        print_json(answer)
        return
    # rich is for those who look at something.
    from shiftboss.cli.views.handoffs import checks_table, receipt_summary

    signed = parsed(answer, "signed_receipt")["signed_receipt"]
    show(receipt_summary(signed), checks_table(signed["receipt"]["checks"]))


@receipt.command()
def export(
    task_id: TaskId,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Standard output if left out.")
    ] = None,
    swarm: Swarm = DEFAULT_SWARM,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print what was written as JSON.")
    ] = False,
) -> None:
    """Write the signed receipt of a task into a file that `receipt verify` checks."""
    answer = ask(server, token_file, "show_receipt", swarm, as_json=as_json, bead_id=task_id)
    signed: dict[str, Any] = parsed(answer, "signed_receipt")["signed_receipt"]
    document = json.dumps(signed, ensure_ascii=False, indent=1).encode()
    if out is None:
        print_json(document)
        return
    try:
        out.write_bytes(document + b"\n")
    except OSError as error:
        raise CannotWrite(f"cannot write {out}: {error.strerror}") from error
    receipt_id = signed["receipt"]["receipt_id"]
    if as_json:
        print_json(json.dumps({"receipt_id": receipt_id, "file": str(out)}).encode())
    else:
        say(f"receipt {receipt_id} is in {out}")


@receipt.command()
def key(
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the key as JSON.")] = False,
) -> None:
    """Print the public key that checks the server's receipts. Keep it where you trust it."""
    with connected(server, token_file, as_json=as_json) as client:
        pem = public_key_of(client)
    if as_json:
        print_json(json.dumps({"public_key": pem}).encode())
    else:
        print_text(pem)
