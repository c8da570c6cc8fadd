"""Where `shiftboss` begins: a hook must not wait until all other commands are loaded."""

from __future__ import annotations

import sys


def main() -> None:
    words = sys.argv[1:]
    if words[:1] == ["hook"] and not {"-h", "--help"}.intersection(words):
        from shiftboss.hooks.program import run

        sys.exit(run(words[1:]))
    from shiftboss.cli.main import main as whole

    whole()
