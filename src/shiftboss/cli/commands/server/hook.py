"""shiftboss hook: agents and git run it before they write."""

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
            help="The file of the contract. Default: SHIFTBOSS_CONTRACT, or that of the work tree. "
            "Without a contract, everything is allowed."
        ),
    ] = None,
    _rest: Annotated[
        list[str] | None,
        typer.Argument(hidden=True, help="The arguments that git passes to its hooks."),
    ] = None,
) -> None:
    """Check whether a contract allows an edit, a commit or a push.

    Agents and git run this before they write.
    """
    sys.exit(run([kind, *(["--contract", str(contract)] if contract else [])]))
