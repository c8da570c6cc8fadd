"""shiftboss verifier: look at claims on a machine that holds the repositories."""

from __future__ import annotations

import json
import re
import secrets
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shiftboss.cli.common.options import DEFAULT_SERVER, OperatorTokenFile, Server, TokenFile
from shiftboss.cli.common.output import plain, print_json, say
from shiftboss.cli.common.tokens import read_operator_token, read_token

if TYPE_CHECKING:
    from shiftboss.verifier.service import Looked


def verifier(
    folder: Annotated[
        Path, typer.Option(metavar="DIR", help="For copies of repositories and checkouts.")
    ] = Path(".shiftboss", "verifier"),
    name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Its own among verifiers; made up if left out."),
    ] = None,
    at_once: Annotated[
        int, typer.Option(metavar="N", min=1, max=64, help="How many claims at the same time.")
    ] = 2,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    operator_token_file: OperatorTokenFile = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print what becomes of claims as JSON lines.")
    ] = False,
) -> None:
    """Verify completions for a server until Ctrl-C (operator). It reconnects by itself."""
    token, operator_token = read_token(token_file), read_operator_token(operator_token_file)
    # Only this command pays for these imports.
    from shiftboss.cli.common.until_signal import run_until_signal
    from shiftboss.client.server_address import Server as ServerAddress
    from shiftboss.verifier.service import run_verifier

    address = ServerAddress.at(server, token)
    own_name = name or _made_up_name()
    _announce(own_name, address.address, as_json=as_json)
    run_until_signal(
        run_verifier(
            address,
            operator_token,
            own_name,
            folder.resolve(),
            at_once,
            _tell_json if as_json else _tell,
            _tell_lost,
        )
    )


def _made_up_name() -> str:
    """Of the machine, and of nobody else: a claim belongs to a name."""
    host = re.sub(r"[^A-Za-z0-9.-]", "-", socket.gethostname())[:40].strip(".-")
    return f"{host or 'verifier'}-{secrets.token_hex(4)}"


def _announce(name: str, address: str, *, as_json: bool) -> None:
    if as_json:
        print_json(json.dumps({"verifier": name, "server": address}).encode())
    else:
        say(f"{name} verifies for {address}; Ctrl-C stops")


def _tell(looked: Looked) -> None:
    say(f"{looked.bead_id}: claim {looked.claim_id} is {looked.state}")


def _tell_json(looked: Looked) -> None:
    print_json(json.dumps(looked._asdict()).encode())


def _tell_lost(detail: str) -> None:
    print(plain(f"{detail}; trying again"), file=sys.stderr, flush=True)
