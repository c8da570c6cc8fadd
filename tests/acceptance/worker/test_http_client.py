"""The retrying HTTP client against a fake server: what it retries, under which key, how long."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from shiftboss.client.errors import ServerBusy, ServerUnreachable
from shiftboss.client.http_client import HttpClient, ServerRequest, new_idempotency_key
from shiftboss.client.server_address import Server
from shiftboss.errors import Conflict, OutcomeUnknown, StoreUnavailable, TooManyRequests
from shiftboss.protocol.problems import problem_of
from tests.acceptance.worker.fake_server import Received, Reply, running_fake_server

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("SW-07")]

BUSY = Reply(503, problem_of(StoreUnavailable("the disk is full")))
UNKNOWN = Reply(503, problem_of(OutcomeUnknown("the commit failed and may or may not last")))
REFUSED = Reply(409, problem_of(Conflict("no")))
# A proxy without a server behind it, and another program on the port.
NOT_THE_SERVER = [Reply(502, b"<html>"), Reply(404, {}), Reply(200, b"<html>"), Reply(200, {})]
ANSWER = Reply(200, {"status": "ok"})


def request() -> ServerRequest:
    return ServerRequest(path="/x", body={"a": 1}, key=new_idempotency_key(), members=("status",))


async def test_it_retries_with_the_same_key_until_the_server_answers() -> None:
    replies: Iterator[Reply] = iter([BUSY, UNKNOWN, *NOT_THE_SERVER, ANSWER])
    failures: list[ServerUnreachable] = []
    with running_fake_server(lambda _: next(replies)) as server:
        async with HttpClient(Server.at(server.url)) as client:
            reply = await client.send_until_answered(request(), failures.append)
    assert reply.answer == {"status": "ok"}
    assert len(failures) == 6
    assert len(server.received) == 7
    assert len({received.key for received in server.received}) == 1
    assert {tuple(received.body.items()) for received in server.received} == {(("a", 1),)}


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("7", 7.0), ("86400", 60.0), ("-1", 0.0), ("tomorrow", 0.0), ("9" * 400, 0.0), (None, 0.0)],
)
def test_a_wait_that_makes_no_sense_is_not_obeyed(value: str | None, seconds: float) -> None:
    reply = Reply(503, b"<html>", retry_after=value)
    with running_fake_server(lambda _: reply) as server, pytest.raises(ServerUnreachable) as error:
        HttpClient(Server.at(server.url)).send_blocking(request())
    assert error.value.retry_after_seconds == seconds


async def test_it_does_not_retry_what_the_server_refuses() -> None:
    with running_fake_server(lambda _: REFUSED) as server:
        client = HttpClient(Server.at(server.url))
        with pytest.raises(Conflict, match="no"):
            await client.send_until_answered(request())
        with pytest.raises(Conflict, match="no"):
            client.send_blocking_within(60, request())
    assert len(server.received) == 2


async def test_a_single_request_distinguishes_a_busy_server_from_a_refusal() -> None:
    with running_fake_server(lambda _: BUSY) as server:
        client = HttpClient(Server.at(server.url))
        with pytest.raises(ServerBusy, match="disk is full") as busy:
            await client.send(request())
        assert type(busy.value.problem) is StoreUnavailable
        with pytest.raises(ServerBusy, match="disk is full"):
            client.send_blocking(request())
    assert len(server.received) == 2


def test_it_gives_up_at_the_deadline_in_a_thread() -> None:
    began = time.monotonic()
    with running_fake_server(lambda _: BUSY) as server:
        with pytest.raises(ServerUnreachable):
            HttpClient(Server.at(server.url)).send_blocking_within(0.5, request())
        assert 2 <= len(server.received) <= 5
    assert time.monotonic() - began < 30
    with pytest.raises(ServerUnreachable, match="no answer from"):
        HttpClient(Server.at(server.url)).send_blocking_within(0.1, request())


@pytest.mark.parametrize("status", [429, 503])
async def test_it_waits_as_long_as_the_server_asks(status: int) -> None:
    busy = Reply(status, problem_of(TooManyRequests("slow down", 1.0)), retry_after="1")
    replies: Iterator[Reply] = iter([busy, ANSWER, busy, ANSWER])
    at: list[float] = []

    def behaviour(_: Received) -> Reply:
        at.append(time.monotonic())
        return next(replies)

    with running_fake_server(behaviour) as server:
        client = HttpClient(Server.at(server.url))
        await client.send_until_answered(request())
        client.send_blocking_within(60, request())
        assert at[1] - at[0] >= 1.0
        assert at[3] - at[2] >= 1.0
        replies = iter([busy])
        with pytest.raises(ServerBusy, match="slow down") as refused:
            client.send_blocking_within(0.9, request())
    assert refused.value.retry_after_seconds == 1.0


async def test_a_request_without_a_body_is_a_get_without_a_key() -> None:
    seen: list[Received] = []

    def behaviour(received: Received) -> Reply:
        seen.append(received)
        return ANSWER

    with running_fake_server(behaviour) as server:
        client = HttpClient(Server.at(server.url, "secret"))
        assert (await client.send(ServerRequest(path="/status"))).content == b'{"status": "ok"}'
    assert seen == [Received("/status", None, "Bearer secret", {})]
