"""shiftboss demo: see it work."""

from __future__ import annotations

from typing import Annotated

import typer


def demo(
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the server until Ctrl-C, to look around.")
    ] = False,
) -> None:
    """Run a plan over three repos with four workers that go wrong, and see all of it land."""
    # Only this command pays for the imports of a run.
    from shiftboss.demo.run import run_demo

    raise typer.Exit(run_demo(keep=keep))
