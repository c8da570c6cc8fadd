"""shiftboss verifier: verifies claims on a machine that has the repositories."""

from __future__ import annotations

import json
import re
import secrets
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shiftboss.cli.common.discovery import find_target
from shiftboss.cli.common.log_options import Format, Level, LogFile, LogFormat, LogLevel
from shiftboss.cli.common.options import CaFile, OperatorTokenFile, ServerUrl, TokenFile
from shiftboss.cli.common.output import print_json, print_line, printable
from shiftboss.cli.common.tokens import operator_token_beside
from shiftboss.system.logs import LogSettings, start_logs

if TYPE_CHECKING:
    from shiftboss.verifier.service import VerifiedClaim


def verifier(
    folder: Annotated[
        Path,
        typer.Option(metavar="DIR", help="The folder for copies of repositories and checkouts."),
    ] = Path(".shiftboss", "verifier"),
    name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="A unique name. Default: a generated one."),
    ] = None,
    at_once: Annotated[
        int, typer.Option(metavar="N", min=1, max=64, help="How many claims to verify at once.")
    ] = 2,
    server: ServerUrl = None,
    token_file: TokenFile = None,
    ca: CaFile = None,  # noqa: ARG001 - exported already
    operator_token_file: OperatorTokenFile = None,
    log_level: Level = LogLevel.WARNING,
    log_format: Format = LogFormat.TEXT,
    log_file: LogFile = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the outcome of each claim as a JSON line.")
    ] = False,
) -> None:
    """Verify claims for a server until Ctrl-C (verifier or operator).

    It reconnects by itself. A token of the role verifier is enough: give it as --token-file or in
    SHIFTBOSS_TOKEN.
    """
    from shiftboss.system.private_environment import hide_secrets

    hide_secrets()
    start_logs(LogSettings(log_level.value, log_format.value, log_file))
    found_server = find_target(server)
    from shiftboss.cli.common.until_signal import until_signal
    from shiftboss.client.servers import Servers
    from shiftboss.system.processes.orphans import ORPHANS
    from shiftboss.verifier.service import run_verifier

    target = Servers.at(found_server.address, token_file=token_file)
    operator_token = operator_token_beside(target.token, operator_token_file, found_server)
    own_name = name or _generated_name()
    _announce(own_name, str(target.addresses), as_json=as_json)
    # Of this process, which starts nothing else: processes that a command leaves behind are ended.
    ORPHANS.adopt()
    until_signal(
        run_verifier(
            target,
            operator_token,
            own_name,
            folder.resolve(),
            at_once,
            _print_outcome_json if as_json else _print_outcome,
            _print_outage,
        )
    )


def _generated_name() -> str:
    """Starts with the host name, and is unique: a taken claim belongs to one name."""
    host = re.sub(r"[^A-Za-z0-9.-]", "-", socket.gethostname())[:40].strip(".-")
    return f"{host or 'verifier'}-{secrets.token_hex(4)}"


def _announce(name: str, address: str, *, as_json: bool) -> None:
    if as_json:
        print_json(json.dumps({"verifier": name, "server": address}).encode())
    else:
        print_line(f"{name} verifies for {address}; stop with Ctrl-C")


def _print_outcome(looked: VerifiedClaim) -> None:
    claim = f"{looked.bead_id}: claim {looked.claim_id}"
    if looked.state == "waiting" and looked.unable is not None:
        print_line(f"{claim} is left to other verifiers: {looked.unable}")
    else:
        print_line(f"{claim} is {looked.state}")


def _print_outcome_json(looked: VerifiedClaim) -> None:
    print_json(json.dumps(looked._asdict()).encode())


def _print_outage(detail: str) -> None:
    print(printable(f"{detail}; trying again"), file=sys.stderr, flush=True)
