"""`shiftboss hook`: asked by agents and by git before they write."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from shiftboss.hooks.program import run


def hook(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND", help="The hook, such as pre-tool-use, codex-stop or pre-commit."
        ),
    ],
    contract: Annotated[
        Path | None,
        typer.Option(
            help="The file of the contract. Without it: that of SHIFTBOSS_CONTRACT, or of the work "
            "tree; where there is none, everything is allowed."
        ),
    ] = None,
    _rest: Annotated[
        list[str] | None, typer.Argument(hidden=True, help="What git gives its hooks.")
    ] = None,
) -> None:
    """Say whether a contract lets an edit, a command, a commit or a push be made."""
    sys.exit(run([kind, *(["--contract", str(contract)] if contract else [])]))
