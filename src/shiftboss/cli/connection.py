"""The connection of one command to the server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from shiftboss.cli.client import Client, Refused
from shiftboss.cli.output import print_json
from shiftboss.cli.tokens import read_token


@contextmanager
def connected(
    server: str, token_file: Path | None, *, as_json: bool, operator_token: str | None = None
) -> Iterator[Client]:
    """A client. What the server refuses is printed as its JSON, for those who asked for JSON."""
    try:
        yield Client(server, read_token(token_file), operator_token)
    except Refused as refusal:
        if not as_json:
            raise
        print_json(refusal.document)
        raise typer.Exit(1) from None
