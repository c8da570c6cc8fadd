"""shiftboss receipt: lists, shows, exports and verifies the signed receipts of accepted tasks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shiftboss.cli.common.client import parse_answer
from shiftboss.cli.common.command import Output, ServerSession, server_command
from shiftboss.cli.common.options import TaskId, TaskSwarm
from shiftboss.cli.common.output import CannotWrite, print_json, print_line, print_text, show
from shiftboss.cli.common.pages import join_documents, join_pages
from shiftboss.cli.common.receipts import public_key_of, receipt_pages
from shiftboss.cli.views.times import now
from shiftboss.errors import InvalidReceipt, ShiftbossError

if TYPE_CHECKING:
    from shiftboss.protocol.receipts import SignedReceipt

receipt = typer.Typer(
    help="Show and verify the signed receipts of accepted tasks.", no_args_is_help=True
)


class CannotRead(ShiftbossError):
    code = "cannot_read"
    title = "The file cannot be read"


@receipt.command()
@server_command(json_help="Print the result as JSON.")
def verify(
    session: ServerSession,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A file that `receipt export` wrote.")
    ],
    key: Annotated[
        Path | None,
        typer.Option(
            metavar="PEM", help="A file with the public key. Without it, the server is asked."
        ),
    ] = None,
) -> Output:
    """Verify that a receipt is signed with the key, and unchanged since.

    \b
    Example, without a server:
      shiftboss receipt verify bd-1.json --key shiftboss.pem
    """
    content = _read(file)
    if key is not None:
        pem, source = _read(key).decode(errors="replace"), str(key)
    else:
        pem, source = public_key_of(session.client), session.client.address
    try:
        facts = _facts(_verified(content, pem))
    except InvalidReceipt as error:
        forged = InvalidReceipt(f"{file} is not genuine: {error.detail}", hint=error.hint)
        return Output.of({"genuine": False, "error": error.detail}, error=forged)
    return Output.of(facts, lambda: _show_verified(file, facts, source, from_server=key is None))


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise CannotRead(f"cannot read {file}: {error.strerror}") from error


def _verified(content: bytes, pem: str) -> SignedReceipt:
    # Imported late: only this command needs cryptography.
    from shiftboss.evidence.receipt_verification import read_receipt, verify_receipt

    signed = read_receipt(content)
    verify_receipt(signed, pem)
    return signed


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
            check.subject or check.check for check in body.checks if check.outcome == "unverifiable"
        ],
        "waivers": [waiver.model_dump() for waiver in body.waivers],
    }


def _show_verified(file: Path, facts: dict[str, Any], source: str, *, from_server: bool) -> None:
    print_line(
        f"{file} is genuine: receipt {facts['receipt_id']}, signed with key {facts['key_id']}"
    )
    print_line(
        f"{facts['bead_id']} was accepted at {facts['accepted_at']}, commit {facts['commit']}"
    )
    for subject in facts["not_checked"]:
        print_line(f"not checked by a command: {subject}")
    for waiver in facts["waivers"]:
        print_line(f"waived by {waiver['granted_by']}: {waiver['check']} ({waiver['reason']})")
    if from_server:
        print_line(f"the key came from {source}; with --key you need not trust a server")


@receipt.command("list")
@server_command()
def list_receipts(
    session: ServerSession,
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="How many, oldest first.")] = 100,
    show_all: Annotated[bool, typer.Option("--all", help="List all of them.")] = False,
) -> Output:
    """List the receipts of all swarms, in the order of their acceptance."""
    pages = receipt_pages(session.client, None if show_all else limit)
    return Output(
        join_documents(pages, "receipts"), lambda: _show_list(join_pages(pages, "receipts"))
    )


def _show_list(listing: dict[str, Any]) -> None:
    if not listing["receipts"]:
        print_line("no receipts")
        return
    from shiftboss.cli.views.handoffs import receipts_table

    show(receipts_table(listing["receipts"], now()))
    if listing["next_after"] is not None:
        print_line("there are more: shiftboss receipt list --all")


@receipt.command("show")
@server_command()
def show_receipt(session: ServerSession, task_id: TaskId, swarm: TaskSwarm = None) -> Output:
    """Show the receipt of a task: commit, checks, waivers."""
    answer = session.call("show_receipt", session.swarm_of(task_id, swarm), bead_id=task_id)
    return Output(
        answer, lambda: _show_receipt(parse_answer(answer, "signed_receipt")["signed_receipt"])
    )


def _show_receipt(signed: dict[str, Any]) -> None:
    from shiftboss.cli.views.handoffs import checks_table, receipt_summary

    show(receipt_summary(signed), checks_table(signed["receipt"]["checks"]))


@receipt.command()
@server_command(json_help="Print what was written as JSON.")
def export(
    session: ServerSession,
    task_id: TaskId,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Default: standard output.")
    ] = None,
    swarm: TaskSwarm = None,
) -> Output | None:
    """Export the signed receipt of a task to a file that `receipt verify` checks."""
    answer = session.call("show_receipt", session.swarm_of(task_id, swarm), bead_id=task_id)
    signed: dict[str, Any] = parse_answer(answer, "signed_receipt")["signed_receipt"]
    document = json.dumps(signed, ensure_ascii=False, indent=1).encode()
    if out is None:
        print_json(document)
        return None
    try:
        out.write_bytes(document + b"\n")
    except OSError as error:
        raise CannotWrite(f"cannot write {out}: {error.strerror}") from error
    receipt_id = signed["receipt"]["receipt_id"]
    return Output.of(
        {"receipt_id": receipt_id, "file": str(out)},
        lambda: print_line(f"wrote receipt {receipt_id} to {out}"),
    )


@receipt.command()
@server_command(json_help="Print the key as JSON.")
def key(session: ServerSession) -> Output:
    """Print the public key that verifies the server's receipts. Keep it in a safe place."""
    pem = public_key_of(session.client)
    return Output.of({"public_key": pem}, lambda: print_text(pem))
