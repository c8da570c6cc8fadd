"""The options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

# Said again here: the server's own module costs an everyday command half a second.
DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 7432
DEFAULT_SERVER: Final = f"http://{DEFAULT_HOST}:{DEFAULT_PORT}"

Server = Annotated[
    str,
    typer.Option(
        "--server", envvar="SHIFTBOSS_URL", metavar="URL", help="The address of the server."
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        metavar="FILE",
        help="A file with the server's token, for your eyes only (mode 600). "
        "Without it the token is taken from the variable SHIFTBOSS_TOKEN.",
    ),
]
OperatorTokenFile = Annotated[
    Path | None,
    typer.Option(
        "--operator-token-file",
        metavar="FILE",
        help="A file with the operator's token (mode 600). Without it the token is taken from "
        "SHIFTBOSS_OPERATOR_TOKEN, or from .shiftboss/operator-token here or above.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the server's JSON.")]
# The bus has a swarm that is there without being created.
DEFAULT_SWARM: Final = "default"
Swarm = Annotated[str, typer.Option("--swarm", metavar="ID", help="The swarm of the task.")]
TaskId = Annotated[str, typer.Argument(metavar="ID", help="The id of the task.")]
SwarmId = Annotated[str, typer.Argument(metavar="ID", help="The id of the swarm.")]
WorkerName = Annotated[
    str | None, typer.Option("--name", metavar="W", help="The worker that says it.")
]
Epoch = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="The attempt that it is about.")
]
