"""The entry point of `shiftboss`: a hook must not wait until all other commands are loaded."""

from __future__ import annotations

import sys


def main() -> None:
    arguments = sys.argv[1:]
    if arguments[:1] == ["hook"] and not {"-h", "--help"}.intersection(arguments):
        from shiftboss.hooks.program import run

        sys.exit(run(arguments[1:]))
    from shiftboss.cli.main import main as run_command

    run_command()
