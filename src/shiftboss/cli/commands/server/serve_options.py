"""The options of `shiftboss serve`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

DEFAULT_DB: Final = str(Path(".shiftboss") / "shiftboss.db")


class LogLevel(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Spawners(StrEnum):
    EVERYBODY = "everybody"
    OPERATOR = "operator"


Host = Annotated[
    str,
    typer.Option(
        envvar="SHIFTBOSS_HOST",
        metavar="HOST",
        help="The address to listen on. One that other machines can reach needs a token.",
    ),
]
Port = Annotated[
    int,
    typer.Option(
        envvar="SHIFTBOSS_PORT", metavar="PORT", min=0, max=65535, help="0: any free port."
    ),
]
Db = Annotated[
    str,
    typer.Option(
        envvar="SHIFTBOSS_DB",
        metavar="DB",
        help="A SQLite file, or postgresql://... for a PostgreSQL server.",
    ),
]
State = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Where the signing key, the operator's token and copies of repositories lie: beside "
        "the database file, or in .shiftboss, if it is left out.",
    ),
]
Verifies = Annotated[
    bool,
    typer.Option(
        "--verifier/--no-verifier",
        help="Verify completions in this process, or leave it to `shiftboss verifier`.",
    ),
]
PolicyFile = Annotated[
    Path | None,
    typer.Option(
        "--policy",
        metavar="FILE",
        help="The policy file; shiftboss.yaml of this folder, if there is one, when left out.",
    ),
]
SpawningBy = Annotated[
    Spawners | None,
    typer.Option(
        "--spawning",
        help="Who may give tasks their contracts, and so choose commands that run as this server's "
        "user: everybody on a loopback address without a token, else the operator, if left out.",
    ),
]
PassEnvironment = Annotated[
    list[str] | None,
    typer.Option(
        envvar="SHIFTBOSS_PASS_ENVIRONMENT",
        metavar="NAME",
        help="A variable of this environment that a contract may show to its commands. May be "
        "given again; in the variable, names with commas between them.",
    ),
]
RetentionDays = Annotated[
    int,
    typer.Option(metavar="DAYS", min=1, max=36_500, help="How long completed swarms are kept."),
]
BeadsFolder = Annotated[
    Path | None,
    typer.Option(
        envvar="SHIFTBOSS_BEADS",
        metavar="DIR",
        help="A folder with a beads tracker: what is submitted and not known is asked of bd.",
    ),
]
Level = Annotated[LogLevel, typer.Option("--log-level", help="What is logged, to stderr.")]
AddressAsJson = Annotated[bool, typer.Option("--json", help="Print the address as JSON.")]
TokenFromInput = Annotated[
    bool,
    typer.Option(
        "--operator-token-from-input",
        help="The operator's token is the first line of standard input.",
        hidden=True,
    ),
]
EndsWithInput = Annotated[
    bool,
    typer.Option("--ends-with-input", help="Stop when standard input ends.", hidden=True),
]
