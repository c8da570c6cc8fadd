"""shiftboss demo: run the demo."""

from __future__ import annotations

from typing import Annotated

import typer


def demo(
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the server running until Ctrl-C.")
    ] = False,
) -> None:
    """Run a demo: three repos, four workers, agents that fail, and all work lands."""
    # Imported here: other commands do not need it, and it is slow.
    from shiftboss.demo.run import run_demo

    raise typer.Exit(run_demo(keep=keep))
