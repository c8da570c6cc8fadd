"""An unusable PostgreSQL URL is a clear error that reveals no secrets."""

from __future__ import annotations

import logging
import re
import socket
import time
import traceback
from collections.abc import Iterator

import pytest

from shiftboss.errors import StoreUnavailable
from shiftboss.store.postgres.store import PostgresStore

pytestmark = pytest.mark.anyio

SECRET = "hunter2-secret"


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


@pytest.fixture
def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
    return port


async def refusal(url: str) -> tuple[StoreUnavailable, str]:
    """The printed error of opening a store, which must fail soon."""
    began = time.monotonic()
    with pytest.raises(StoreUnavailable) as caught:
        await PostgresStore(url).open(lambda _: None, lambda: None)
    assert time.monotonic() - began < 10
    return caught.value, "".join(traceback.format_exception(caught.value))


async def test_an_unreachable_server_is_a_clear_error_without_the_password(
    free_port: int, silent_port: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    for address in (f"127.0.0.1:{free_port}/x", f"127.0.0.1:{silent_port}/x?connect_timeout=2"):
        error, printed = await refusal(f"postgresql://boss:{SECRET}@{address}")
        assert re.search(r"refused|timeout", error.detail)
        assert "127.0.0.1" in error.detail
        assert error.hint
        assert SECRET not in printed + repr(error) + caplog.text


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://boss:{SECRET}/more@127.0.0.1/x",
        f"postgresql://boss:{SECRET}%zz@127.0.0.1/x",
        f"postgresql://boss:x@127.0.0.1/x?pasword={SECRET}",
    ],
)
async def test_a_malformed_address_is_a_clear_error_without_the_password(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    error, printed = await refusal(url)
    assert "address" in error.detail
    assert SECRET not in printed + repr(error) + caplog.text
