"""`python -m spellbook.coordination.server --port 7432`: the real server."""

from __future__ import annotations

import argparse
import os
import sys

from shiftboss.errors import ShiftbossError
from shiftboss.server.run import DEFAULT_HOST, DEFAULT_PORT, ServerSettings, serve
from shiftboss.store.opening import DEFAULT_DATABASE


def main(arguments: list[str] | None = None) -> int:
    given = _parser().parse_args(arguments)
    settings = ServerSettings(
        database=given.db,
        host=given.host,
        port=given.port,
        token=os.environ.get("SHIFTBOSS_TOKEN") or None,
    )
    try:
        serve(settings, _tell)
    except ShiftbossError as error:
        print(error.detail, error.hint or "", sep="\n", file=sys.stderr)
        return 1
    return 0


def _tell(address: str) -> None:
    print(f"listening on {address}", flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m spellbook.coordination.server", description="Start the coordination server."
    )
    parser.add_argument("--host", default=DEFAULT_HOST, help="default: %(default)s")
    parser.add_argument("--port", type=int, default=DEFAULT_PORT, help="default: %(default)s")
    parser.add_argument(
        "--db",
        default=str(DEFAULT_DATABASE),
        help="a SQLite file or a postgresql:// address; default: %(default)s",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
