"""GET /changes, as a page reads it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from shiftboss.server.web import change_stream
from tests.in_process import InProcessServer
from tests.waiting import eventually

pytestmark = pytest.mark.requirement("OWN-04")


def test_a_quiet_stream_says_that_it_is_alive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As events with a name and data: a script is not told of comments."""
    monkeypatch.setattr(change_stream, "KEEP_ALIVE_SECONDS", 0.02)
    with InProcessServer(tmp_path / "shiftboss.db") as server:
        hello, *pings = server.run(_first_parts(server, 4))
    assert b"event: hello\n" in hello
    assert set(pings) == {b"event: ping\ndata: {}\n\n"}


async def _first_parts(server: InProcessServer, count: int) -> list[bytes]:
    parts: list[bytes] = []
    stream = asyncio.create_task(server.send("GET", "/changes", on_body=parts.append))
    await eventually(lambda: len(parts) >= count, "the stream goes on")
    stream.cancel()
    with suppress(asyncio.CancelledError):
        await stream
    return parts
