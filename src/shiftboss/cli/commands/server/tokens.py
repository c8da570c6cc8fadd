"""shiftboss token: named tokens with roles."""

from __future__ import annotations

import os
import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from shiftboss.cli.common.client import parse_answer
from shiftboss.cli.common.command import Output, ServerSession, server_command
from shiftboss.cli.common.output import print_line, show
from shiftboss.errors import ShiftbossError

token = typer.Typer(
    help="Create, list, revoke and rotate tokens with a name and a role.", no_args_is_help=True
)

_UNITS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_DURATION: Final = re.compile(r"([0-9]{1,9})([smhdw])")
_PAGE: Final = 500
# Only for the user who runs the command.
_FILE_MODE: Final = 0o600


class TokenRole(StrEnum):
    WORKER = "worker"
    SPAWNER = "spawner"
    ORCHESTRATOR = "orchestrator"
    VERIFIER = "verifier"
    OPERATOR = "operator"
    READ_ONLY = "read-only"


class CannotWriteToken(ShiftbossError):
    code = "cannot_write_token"
    title = "The token cannot be written"


def _seconds(text: str | None) -> int | None:
    if text is None:
        return None
    parts = _DURATION.fullmatch(text)
    if parts is None:
        raise typer.BadParameter(f"{text!r} is not a time such as 90s, 30m, 12h, 30d or 4w")
    return int(parts[1]) * _UNITS[parts[2]]


Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the token.")]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="FILE",
        help="Write the token to a new file (mode 600) instead of printing it.",
    ),
]
Expires = Annotated[
    str | None,
    typer.Option("--expires", metavar="TIME", help="How long it is valid, such as 12h, 30d or 4w."),
]


@token.command()
@server_command(operator=True)
def create(
    session: ServerSession,
    name: Name,
    role: Annotated[TokenRole, typer.Option("--role", help="What the token allows.")],
    swarm: Annotated[
        str | None, typer.Option("--swarm", metavar="SWARM", help="Only for this swarm.")
    ] = None,
    task: Annotated[
        str | None, typer.Option("--task", metavar="TASK", help="Only for this task of the swarm.")
    ] = None,
    worker: Annotated[
        str | None,
        typer.Option("--worker", metavar="WORKER", help="Only as this worker or verifier."),
    ] = None,
    expires: Expires = None,
    out: Out = None,
) -> Output:
    """Create a token with a name and a role (operator).

    The token is shown once. Events name the token, so give everybody one of their own.

    \b
    Example:
      shiftboss token create ci-runner --role worker --swarm login --expires 30d
    """
    return _make(
        session,
        "create_token",
        out,
        name=name,
        role=role.value,
        swarm_id=swarm,
        bead_id=task,
        worker=worker,
        expires_in_seconds=_seconds(expires),
    )


@token.command("list")
@server_command(operator=True)
def list_tokens(
    session: ServerSession,
    ended: Annotated[
        bool, typer.Option("--all", help="Include revoked and expired tokens.")
    ] = False,
) -> Output:
    """List the tokens, without their secrets (operator)."""
    tokens: list[dict[str, Any]] = []
    after: str | None = ""
    while after is not None:
        page = parse_answer(
            _call(session, "list_tokens", ended=ended, after=after, limit=_PAGE), "tokens"
        )
        tokens += page["tokens"]
        after = page["next_after"]
    tokens.sort(key=lambda row: (row["name"], row["created_at"]))

    def view() -> None:
        if not tokens:
            print_line("no tokens")
            return
        from shiftboss.cli.views.deployment import tokens_table

        show(tokens_table(tokens))

    return Output.of({"tokens": tokens, "next_after": None}, view)


@token.command()
@server_command(operator=True)
def revoke(
    session: ServerSession,
    token_name: Annotated[
        str,
        typer.Argument(metavar="NAME|ID", help="A name, with all its tokens, or the id of one."),
    ],
) -> Output:
    """Revoke the tokens of a name, or one by its id (operator).

    Takes effect at once: requests with the token are refused, and its event streams end.
    """
    document = _call(session, "revoke_token", token=token_name)

    def view() -> None:
        for row in parse_answer(document, "revoked")["revoked"]:
            print_line(f"revoked {row['token_id']} of {row['name']}")

    return Output(document, view)


@token.command()
@server_command(operator=True)
def rotate(
    session: ServerSession,
    name: Name,
    overlap: Annotated[
        str,
        typer.Option(
            "--overlap", metavar="TIME", help="How long the older one stays valid; 0s: not at all."
        ),
    ] = "1h",
    expires: Expires = None,
    out: Out = None,
) -> Output:
    """Create a new token of a name; the older one stays valid for a while (operator).

    \b
    Example:
      shiftboss token rotate ci-runner --overlap 1h
    """
    return _make(
        session,
        "rotate_token",
        out,
        name=name,
        overlap_seconds=_seconds(overlap),
        expires_in_seconds=_seconds(expires),
    )


def _make(session: ServerSession, operation: str, out: Path | None, /, **members: object) -> Output:
    """The file is created before the token, so that no token is made that cannot be written."""
    if out is None:
        document = _call(session, operation, **members)
        answer = parse_answer(document, "token")
        secret = str(answer["token"])
        return Output(document, lambda: print_line(secret), notes=[_note(answer["created"])])
    file = _new_file(out)
    try:
        answer = parse_answer(_call(session, operation, **members), "token")
        os.write(file, f"{answer['token']}\n".encode("ascii"))
    except ShiftbossError:
        out.unlink(missing_ok=True)
        raise
    finally:
        os.close(file)
    created = answer["created"]
    return Output.of(
        answer | {"token": None, "file": str(out)},
        lambda: print_line(f"the token of {created['name']} is in {out}"),
        notes=[_note(created)],
    )


def _call(session: ServerSession, operation: str, /, **members: object) -> bytes:
    given = {name: value for name, value in members.items() if value is not None}
    return session.post_as_operator(operation, given)


def _new_file(out: Path) -> int:
    try:
        return os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, _FILE_MODE)
    except OSError as error:
        raise CannotWriteToken(
            f"cannot create {out}: {error.strerror}",
            field="out",
            hint="name a file that does not exist yet, in a folder that you may write to",
        ) from error


def _note(created: dict[str, Any]) -> str:
    from shiftboss.cli.views.deployment import limits_text

    return f"{created['token_id']}: {created['name']}, {created['role']}, {limits_text(created)}"
