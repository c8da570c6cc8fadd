"""shiftboss receipt: what was accepted, signed by the server, and the check of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from shiftboss.cli.bus_calls import ask
from shiftboss.cli.client import parsed
from shiftboss.cli.connection import connected
from shiftboss.cli.options import (
    DEFAULT_SERVER,
    DEFAULT_SWARM,
    AsJson,
    Server,
    Swarm,
    TaskId,
    TokenFile,
)
from shiftboss.cli.output import print_json, print_text, say, show
from shiftboss.cli.receipt_check import verify
from shiftboss.cli.receipt_pages import joined_receipts, public_key_of, receipt_pages
from shiftboss.cli.times import now
from shiftboss.errors import ShiftbossError

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
    from shiftboss.cli.receipt_tables import receipts_table

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
    from shiftboss.cli.receipt_tables import receipt_summary
    from shiftboss.cli.verdict_tables import checks_table

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
