"""The time that a server may take for the head of its answer."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final

import httpx2

from shiftboss.conformance.checks import Broken

# The client's own timeouts come first: they say more.
GRACE_SECONDS: Final = 0.5


def within(seconds: float, send: Callable[[], httpx2.Response]) -> httpx2.Response:
    """Raises Broken. Every byte starts the client's timeouts again, so a server that drips its
    headers, or sends interim answers without end, would stop the kit."""
    answered: Future[httpx2.Response] = Future()

    def run() -> None:
        try:
            answered.set_result(send())
        except Exception as error:  # noqa: BLE001 (raised below)
            answered.set_exception(error)

    threading.Thread(target=run, name="conformance-call", daemon=True).start()
    try:
        return answered.result(seconds + GRACE_SECONDS)
    except TimeoutError:
        answered.add_done_callback(_close)
        raise Broken(f"the head of an answer has no end within {seconds:g} s") from None


def _close(answered: Future[httpx2.Response]) -> None:
    if answered.exception() is None:
        answered.result().close()
