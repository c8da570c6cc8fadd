"""shiftboss demo: see it work."""

from __future__ import annotations

from typing import Annotated

import typer


def demo(
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the server until Ctrl-C, to look around.")
    ] = False,
) -> None:
    """Run a swarm of real workers, kill one of them and the server, and see nothing get lost."""
    # Only this command pays for the worker's imports.
    from shiftboss.demo.run import run_demo

    raise typer.Exit(run_demo(keep=keep))
