"""shiftboss receipt: lists, shows, exports and verifies the signed receipts of accepted tasks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from shiftboss.cli.common.client import Client, NoServer, parse_answer
from shiftboss.cli.common.command import Output, ServerSession, server_command
from shiftboss.cli.common.options import DEFAULT_SWARM, TaskId, TaskSwarm
from shiftboss.cli.common.output import CannotWrite, print_json, print_line, print_text, show
from shiftboss.cli.common.pages import join_documents, join_pages
from shiftboss.cli.common.receipts import (
    CannotRead,
    check_not_retired,
    keys_of,
    proven_by_file,
    proven_by_note,
    public_key_of,
    read_note_of,
    receipt_pages,
)
from shiftboss.cli.common.times import now
from shiftboss.errors import InvalidReceipt, ShiftbossError

# The operation that shows a receipt, and the member of its answer.
SHOW: Final = ("show_receipt", "signed_receipt")
_KEY_HINT: Final = (
    "give the public key of the server that signed it: --key key.pem "
    "(there, `shiftboss receipt key` prints it)"
)
TaskOrReceipt = Annotated[
    str, typer.Argument(metavar="TASK", help="The id of the task, or of the receipt.")
]

receipt = typer.Typer(
    help="Show and verify the signed receipts of accepted tasks.", no_args_is_help=True
)


class NothingToNote(ShiftbossError):
    code = "nothing_to_note"
    title = "There is no commit to note the receipt at"


@receipt.command()
@server_command(json_help="Print the result as JSON.")
def verify(
    session: ServerSession,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE]", help="A file that `receipt export` wrote."),
    ] = None,
    commit: Annotated[
        str | None,
        typer.Option(
            metavar="COMMIT", help="Verify the note of this commit, in the repository here."
        ),
    ] = None,
    key: Annotated[
        Path | None,
        typer.Option(
            metavar="PEM", help="A file with public keys. Without it, the server is asked."
        ),
    ] = None,
) -> Output:
    """Verify that a receipt is signed with the key, and unchanged since.

    \b
    Examples, without a server:
      shiftboss receipt verify bd-1.json --key shiftboss.pem
      shiftboss receipt verify --commit HEAD --key shiftboss.pem
    """
    subject, content = _to_verify(file, commit)
    keys: list[dict[str, Any]] = []
    if key is not None:
        pem, source = _read(key).decode(errors="replace"), str(key)
    else:
        keys, source = _keys_of_server(session.client), session.client.address
        pem = "".join(each["public_key"] for each in keys)
    try:
        is_file = commit is None
        proven = proven_by_file(content, pem) if is_file else proven_by_note(content, subject, pem)
        check_not_retired(proven, keys)
    except InvalidReceipt as error:
        forged = InvalidReceipt(f"{subject} is not genuine: {error.detail}", hint=error.hint)
        return Output.of({"genuine": False, "error": error.detail}, error=forged)
    document = {"genuine": True, **proven[0]}
    if commit is not None:
        document = {"genuine": True, "commit": subject, "receipts": proven}
    return Output.of(
        document, lambda: _show_verified(subject, proven, source, from_server=key is None)
    )


def _to_verify(file: Path | None, commit: str | None) -> tuple[str, bytes]:
    """The name of a file and its content, or the id of a commit and its note."""
    if file is not None and commit is None:
        return str(file), _read(file)
    if file is None and commit is not None:
        return read_note_of(commit)
    raise typer.BadParameter("give either a file or --commit", param_hint="FILE")


def _keys_of_server(client: Client) -> list[dict[str, Any]]:
    """A server that is started for it would have a key of its own, and call the receipt forged."""
    try:
        return keys_of(client)
    except NoServer as error:
        raise NoServer(error.detail, hint=_KEY_HINT) from error


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise CannotRead(f"cannot read {file}: {error.strerror}") from error


def _show_verified(
    subject: str, proven: list[dict[str, Any]], source: str, *, from_server: bool
) -> None:
    for facts in proven:
        print_line(
            f"{subject} is genuine: receipt {facts['receipt_id']}, "
            f"signed with key {facts['key_id']}"
        )
        print_line(
            f"{facts['bead_id']} was accepted at {facts['accepted_at']}, commit {facts['commit']}"
        )
        if "landed_as" in facts:
            print_line(f"it landed on {facts['target']} as this squash")
        for check in facts["not_checked"]:
            print_line(f"not checked by a command: {check}")
        for waiver in facts["waivers"]:
            print_line(f"waived by {waiver['granted_by']}: {waiver['check']} ({waiver['reason']})")
    if from_server:
        print_line(f"the keys came from {source}; with --key you need not trust a server")


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
def show_receipt(session: ServerSession, task_id: TaskOrReceipt, swarm: TaskSwarm = None) -> Output:
    """Show the receipt of a task: commit, checks, how they were tested, waivers."""
    answer = session.call("show_receipt", session.swarm_of(task_id, swarm), bead_id=task_id)
    return Output(
        answer, lambda: _show_receipt(parse_answer(answer, "signed_receipt")["signed_receipt"])
    )


def _show_receipt(signed: dict[str, Any]) -> None:
    from shiftboss.cli.views.handoffs import receipt_check_lines, receipt_summary

    show(receipt_summary(signed), *receipt_check_lines(signed["receipt"]["checks"]))


@receipt.command()
@server_command(json_help="Print what was written as JSON.")
def export(
    session: ServerSession,
    task_id: TaskOrReceipt,
    out: Annotated[
        Path | None,
        typer.Option("--out", "--output", metavar="FILE", help="Default: standard output."),
    ] = None,
    in_toto: Annotated[
        bool, typer.Option("--in-toto", help="As an in-toto statement in a DSSE envelope.")
    ] = False,
    swarm: TaskSwarm = None,
) -> Output | None:
    """Export the signed receipt of a task to a file that `receipt verify` checks."""
    operation, member = ("export_receipt", "receipt") if in_toto else SHOW
    answer = session.call(operation, session.swarm_of(task_id, swarm), bead_id=task_id)
    exported = parse_answer(answer, member)
    document = json.dumps(exported[member], ensure_ascii=False, indent=1).encode()
    if out is None:
        print_json(document)
        return None
    try:
        out.write_bytes(document + b"\n")
    except OSError as error:
        raise CannotWrite(f"cannot write {out}: {error.strerror}") from error
    receipt_id = exported["receipt_id"] if in_toto else exported[member]["receipt"]["receipt_id"]
    return Output.of(
        {"receipt_id": receipt_id, "file": str(out)},
        lambda: print_line(f"wrote receipt {receipt_id} to {out}"),
    )


@receipt.command()
@server_command(json_help="Print what was noted as JSON.")
def note(
    session: ServerSession,
    task_id: TaskId,
    landed_as: Annotated[
        str | None,
        typer.Option(
            metavar="COMMIT", help="The squash on the target. Default: the one that was reported."
        ),
    ] = None,
    swarm: TaskSwarm = None,
) -> Output:
    """Write the receipt of a task into the git notes of its repository, as landing does."""
    # Imported late: everyday commands do without.
    import asyncio

    swarm_id = session.swarm_of(task_id, swarm)
    handoff = parse_answer(session.call("show_handoff", swarm_id, bead_id=task_id), "repo")
    task = parse_answer(session.call("show_task", swarm_id, bead_id=task_id), "bead_id")
    exported = parse_answer(session.call("export_receipt", swarm_id, bead_id=task_id), "receipt")
    if exported["commit"] == handoff["base_commit"]:
        raise NothingToNote(f"{task_id} only reads: it has no commit of its own")
    repo = Path(handoff["repo"])
    landed_as = landed_as or task.get("landed_commit")
    squash = asyncio.run(_squash(repo, exported["commit"], landed_as))
    if squash is not None:
        answer = session.call("export_receipt", swarm_id, bead_id=task_id, landed_as=squash)
        exported = parse_answer(answer, "landing")
    changed = asyncio.run(_write_note(repo, exported, squash))
    noted = {"receipt_id": exported["receipt_id"], "commit": squash or exported["commit"]}
    text = "is noted at" if changed else "was noted before at"
    return Output.of(
        {**noted, "repo": str(repo), "changed": changed},
        lambda: print_line(f"receipt {noted['receipt_id']} {text} {noted['commit']} in {repo}"),
    )


async def _squash(folder: Path, commit: str, landed_as: str | None) -> str | None:
    from shiftboss.orchestrator.git.repository import GitRepo
    from shiftboss.orchestrator.landing.receipt_notes import squash_of

    repo = await GitRepo.at(folder)
    if landed_as is None:
        return None
    landed = await repo.commit_of(landed_as)
    if landed is None:
        raise CannotRead(f"there is no commit {landed_as} in the repository {folder}")
    return await squash_of(repo, commit, landed)


async def _write_note(folder: Path, exported: dict[str, Any], squash: str | None) -> bool:
    from shiftboss.orchestrator.git.repository import GitRepo
    from shiftboss.orchestrator.landing.receipt_notes import note_receipt

    return await note_receipt(await GitRepo.at(folder), exported, squash)


@receipt.command()
@server_command(json_help="Print the key as JSON.")
def key(session: ServerSession) -> Output:
    """Print the public key that verifies the server's receipts. Keep it in a safe place."""
    pem = public_key_of(session.client)
    return Output.of({"public_key": pem}, lambda: print_text(pem))


@receipt.command()
@server_command()
def keys(
    session: ServerSession,
    pem: Annotated[
        bool, typer.Option("--pem", help="Print the public keys, for `receipt verify --key`.")
    ] = False,
) -> Output:
    """List the keys that have signed receipts: of all servers, also the retired ones."""
    listed = keys_of(session.client)

    def view() -> None:
        if pem:
            print_text("".join(each["public_key"] for each in listed))
            return
        from shiftboss.cli.views.deployment import keys_table

        show(keys_table(listed))

    return Output.of({"keys": listed}, view)


@receipt.command("retire-key")
@server_command(json_help="Print the key as JSON.", operator=True)
def retire_key(
    session: ServerSession,
    key_id: Annotated[str, typer.Argument(metavar="KEY_ID", help="As `receipt keys` shows it.")],
) -> Output:
    """Retire a signing key: it no longer signs; receipts signed with it stay valid (operator).

    The server that has the key replaces it by a new one.
    """
    answer = parse_answer(
        session.call_as_operator("retire_key", DEFAULT_SWARM, key_id=key_id), "key"
    )

    def view() -> None:
        print_line(f"key {key_id} is retired since {answer['key']['retired_at']}")
        if session.is_offline:
            print_line("a server here that has it gets a new key when it starts")
        else:
            print_line(f"{session.client.address} signs with key {answer['signing_key_id']}")

    return Output.of(answer, view)


@receipt.command("add-key")
@server_command(json_help="Print the key as JSON.", operator=True)
def add_key(
    session: ServerSession,
    file: Annotated[Path, typer.Argument(metavar="PEM", help="A file with a public key.")],
) -> Output:
    """Add the public key of a server that is gone: its receipts count as genuine (operator)."""
    pem = _read(file).decode(errors="replace")
    answer = parse_answer(session.call_as_operator("add_key", DEFAULT_SWARM, public_key=pem), "key")
    key_id = answer["key"]["key_id"]
    return Output.of(answer, lambda: print_line(f"added key {key_id}"))
