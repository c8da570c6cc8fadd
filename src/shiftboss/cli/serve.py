"""shiftboss serve: the server itself."""

from __future__ import annotations

import json
import logging
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from shiftboss.cli.options import DEFAULT_HOST, DEFAULT_PORT, TokenFile
from shiftboss.cli.output import say
from shiftboss.cli.tokens import read_token


class LogLevel(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def serve(
    host: Annotated[
        str,
        typer.Option(
            envvar="SHIFTBOSS_HOST",
            metavar="HOST",
            help="The address to listen on. One that other machines can reach needs a token.",
        ),
    ] = DEFAULT_HOST,
    port: Annotated[
        int,
        typer.Option(
            envvar="SHIFTBOSS_PORT", metavar="PORT", min=0, max=65535, help="0: any free port."
        ),
    ] = DEFAULT_PORT,
    db: Annotated[
        str,
        typer.Option(
            envvar="SHIFTBOSS_DB",
            metavar="DB",
            help="A SQLite file, or postgresql://... for a PostgreSQL server.",
        ),
    ] = str(Path(".shiftboss") / "shiftboss.db"),
    token_file: TokenFile = None,
    retention_days: Annotated[
        int,
        typer.Option(metavar="DAYS", min=1, max=36_500, help="How long completed swarms are kept."),
    ] = 30,
    beads: Annotated[
        Path | None,
        typer.Option(
            envvar="SHIFTBOSS_BEADS",
            metavar="DIR",
            help="A folder with a beads tracker: what is submitted and not known is asked of bd.",
        ),
    ] = None,
    log_level: Annotated[
        LogLevel, typer.Option(help="What is logged, to stderr.")
    ] = LogLevel.WARNING,
    as_json: Annotated[bool, typer.Option("--json", help="Print the address as JSON.")] = False,
) -> None:
    """Run the server until Ctrl-C. One line tells its address once it listens."""
    token = read_token(token_file)
    logging.basicConfig(
        stream=sys.stderr,
        level=log_level.value.upper(),
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    # Only this command pays for the server's imports.
    from shiftboss.server.run import ServerSettings
    from shiftboss.server.run import serve as run

    settings = ServerSettings(
        database=db,
        host=host,
        port=port,
        token=token,
        retention_days=retention_days,
        beads=beads,
    )
    run(settings, _announce_json if as_json else _announce)


def _announce(address: str) -> None:
    say(f"listening on {address}; Ctrl-C stops")


def _announce_json(address: str) -> None:
    print(json.dumps({"address": address}), flush=True)
