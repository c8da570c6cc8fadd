"""Messages between a server and its evidence process arrive as they were sent."""

from __future__ import annotations

import asyncio
import pickle

import pytest

from shiftboss.errors import CiUnavailable, InvalidRequest, ShiftbossError, TaskEnded
from shiftboss.evidence.subprocess.messages import ProxyFailure, failure_of, receive

ERRORS = [
    InvalidRequest("no such base", field="base", hint="give a branch"),
    CiUnavailable("it is down", reason="down", retry_after_seconds=12.5, hint="wait"),
    TaskEnded("bd-1", "done"),  # its constructor takes other arguments than its message
]


def _sent(failure: ProxyFailure) -> ProxyFailure:
    arrived: ProxyFailure = pickle.loads(pickle.dumps(failure))
    return arrived


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.code)
def test_an_error_arrives_as_it_was_raised(error: ShiftbossError) -> None:
    error.add_note("seen at noon")
    arrived = _sent(failure_of(7, error))
    again = arrived.error()
    assert arrived.number == 7
    assert type(again) is type(error)
    assert (again.args, vars(again)) == (error.args, vars(error))
    assert str(again) == error.detail


def test_an_unexpected_error_arrives_with_its_traceback() -> None:
    class OfHere(Exception):
        """It cannot be imported."""

    def slip() -> None:
        raise OfHere("oops")

    with pytest.raises(OfHere) as raised:
        slip()
    again = _sent(failure_of(1, raised.value)).error()
    assert str(again) == "OfHere('oops')"
    assert "in slip" in again.__notes__[0]


@pytest.mark.parametrize("content", [b"", b"\0\0\0", (9).to_bytes(8, "big") + b"half"])
def test_a_truncated_message_means_the_end(content: bytes) -> None:
    async def read() -> object:
        reader = asyncio.StreamReader()
        reader.feed_data(content)
        reader.feed_eof()
        return await receive(reader)

    assert asyncio.run(read()) is None
