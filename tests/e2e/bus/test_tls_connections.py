"""Connections over TLS, on the event loop of the real server: the same replies as without it."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import ssl
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from shiftboss.cli.common.client import Client, NoSecureConnection, NoServer
from shiftboss.client.errors import TlsFailed
from shiftboss.client.http_client import HttpClient, ServerRequest
from shiftboss.client.server_address import Server
from shiftboss.errors import InvalidRequest, ShiftbossError
from shiftboss.server.http.app import App
from shiftboss.server.http.certificates import Certificates
from shiftboss.server.http.forwarded import Forwarding
from shiftboss.server.http.open_connections import ConnectionLimits
from shiftboss.server.http.rate_limits import BURST_SECONDS, RateLimits
from tests.certificates import DAY, Authority, Pair
from tests.listener import Listener, coordinating

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("OWN-06")]

BOTH_PATHS = pytest.mark.parametrize("fast_path", [True, False], ids=["fast path", "plain ASGI"])
SECONDS = 20.0
HEALTH = ServerRequest(path="/health", members=("version",))


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": True}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def pair(authority: Authority) -> Pair:
    return authority.issue()


@pytest.fixture(autouse=True)
def system_authorities(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SHIFTBOSS_CA", "SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)


@asynccontextmanager
async def served(
    folder: Path,
    pair: Pair | None,
    *,
    fast_path: bool = True,
    limits: ConnectionLimits | None = None,
    rates: RateLimits | None = None,
    forwarding: Forwarding | None = None,
) -> AsyncIterator[Listener]:
    certificates = None if pair is None else Certificates(pair.cert, pair.key)
    async with coordinating(folder / "shiftboss.db") as coordinator:
        app = App(coordinator, rates=rates, certificates=certificates, forwarding=forwarding)
        async with Listener(app, fast_path=fast_path, limits=limits).listening() as listener:
            yield listener


def post(path: str, body: object, **headers: str) -> bytes:
    content = json.dumps(body).encode()
    lines = {"Host": "127.0.0.1", "Content-Type": "application/json", **headers}
    head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in lines.items())
    return (
        f"POST {path} HTTP/1.1\r\n{head}Content-Length: {len(content)}\r\n\r\n".encode() + content
    )


async def read_reply(reader: asyncio.StreamReader) -> tuple[int, Any]:
    async with asyncio.timeout(SECONDS):
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
        return int(head.split()[1]), json.loads(await reader.readexactly(length))


class Peer:
    """A client that trusts the authority."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer

    async def call(self, path: str, body: object, **headers: str) -> tuple[int, Any]:
        self.writer.write(post(path, body, **headers))
        return await read_reply(self._reader)


@asynccontextmanager
async def connected(listener: Listener, authority: Authority | None) -> AsyncIterator[Peer]:
    context = None if authority is None else ssl.create_default_context(cafile=authority.file)
    reader, writer = await asyncio.open_connection(listener.host, listener.port, ssl=context)
    try:
        yield Peer(reader, writer)
    finally:
        writer.transport.abort()


@BOTH_PATHS
async def test_the_bus_works_over_one_connection(
    tmp_path: Path, authority: Authority, pair: Pair, fast_path: bool
) -> None:
    """Replies that are written early must go through TLS as well."""
    async with (
        served(tmp_path, pair, fast_path=fast_path) as listener,
        connected(listener, authority) as peer,
    ):
        for number in range(3):
            task = f"t{number}"
            assert (await peer.call("/bus/register_worker", {"name": "w"}))[0] == 200
            added = {"bead_id": task, "title": "a task"}
            assert (await peer.call("/bus/add_task", added))[0] == 200
            assert (await peer.call("/bus/submit_task", {"bead_id": task}))[0] == 200
            polled = await peer.call("/bus/poll_task", {"name": "w", "timeout_ms": 10_000})
            assert polled[1]["task"]["bead_id"] == task
            given = {"name": "w", "bead_id": task}
            assert (await peer.call("/bus/ack_task", given))[1]["epoch"] == 1
            assert (await peer.call("/bus/worker_done", given))[1]["success"] is True


@BOTH_PATHS
async def test_a_request_may_come_with_the_end_of_the_handshake(
    tmp_path: Path, authority: Authority, pair: Pair, fast_path: bool
) -> None:
    async with served(tmp_path, pair, fast_path=fast_path) as listener:
        reader, writer = await asyncio.open_connection(listener.host, listener.port)
        received, to_send = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = ssl.create_default_context(cafile=authority.file)
        tls = context.wrap_bio(received, to_send, server_hostname=listener.host)
        async with asyncio.timeout(SECONDS):
            while True:
                try:
                    tls.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    writer.write(to_send.read())
                    received.write(await reader.read(65_536))
                    assert not reader.at_eof(), "the connection was closed"
            tls.write(post("/bus/register_worker", {"name": "early"}))
            writer.write(to_send.read())
            reply = b""
            while b"early" not in reply:
                try:
                    reply += tls.read()
                except ssl.SSLWantReadError:
                    packet = await reader.read(65_536)
                    assert packet, "the connection was closed"
                    received.write(packet)
        assert reply.startswith(b"HTTP/1.1 200 ")
        writer.transport.abort()


async def test_plain_http_is_told_to_use_tls(tmp_path: Path, pair: Pair) -> None:
    async with served(tmp_path, pair) as listener:
        reader, writer = await asyncio.open_connection(listener.host, listener.port)
        writer.write(post("/bus/register_worker", {"name": "plain"}))
        status, problem = await read_reply(reader)
        assert (status, problem["code"]) == (400, "tls_required")
        assert await reader.read() == b""
        writer.close()


async def test_what_is_neither_tls_nor_http_is_closed(tmp_path: Path, pair: Pair) -> None:
    async with served(tmp_path, pair) as listener:
        reader, writer = await asyncio.open_connection(listener.host, listener.port)
        writer.write(b"\0" * 100)
        async with asyncio.timeout(SECONDS):
            assert b"HTTP" not in await reader.read()
        writer.close()


async def test_a_handshake_that_does_not_end_is_ended(
    tmp_path: Path, authority: Authority, pair: Pair
) -> None:
    limits = ConnectionLimits(head_seconds=0.05)
    async with served(tmp_path, pair, limits=limits) as listener:
        reader, writer = await asyncio.open_connection(listener.host, listener.port)
        writer.write(b"\x16\x03\x01\x02\x00")  # the beginning of a record
        async with asyncio.timeout(SECONDS):
            try:
                assert await reader.read() == b""
            except ConnectionResetError:
                pass
        writer.close()
        async with connected(listener, authority) as peer:
            assert (await peer.call("/bus/register_worker", {"name": "w"}))[0] == 200


async def test_handshakes_count_as_connections_and_make_room(
    tmp_path: Path, authority: Authority, pair: Pair
) -> None:
    async with served(tmp_path, pair, limits=ConnectionLimits(connections_max=3)) as listener:
        silent = [await asyncio.open_connection(listener.host, listener.port) for _ in range(5)]
        async with connected(listener, authority) as peer:
            assert (await peer.call("/bus/register_worker", {"name": "w"}))[0] == 200
        for _, writer in silent:
            writer.transport.abort()


async def test_new_connections_get_a_certificate_that_was_loaded_again(
    tmp_path: Path, authority: Authority
) -> None:
    first = authority.issue("first")
    certificates = Certificates(first.cert, first.key)
    async with coordinating(tmp_path / "shiftboss.db") as coordinator:
        app = App(coordinator, certificates=certificates)
        async with (
            Listener(app, fast_path=True).listening() as listener,
            connected(listener, authority) as old,
        ):
            second = authority.issue("second")
            first.cert.write_bytes(second.cert.read_bytes())
            first.key.write_bytes(second.key.read_bytes())
            certificates.reload_certificates()
            async with connected(listener, authority) as new:
                names = [common_name(peer) for peer in (old, new)]
                assert names == ["first", "second"]
            assert (await old.call("/bus/register_worker", {"name": "w"}))[0] == 200


def common_name(peer: Peer) -> str:
    certificate = peer.writer.get_extra_info("peercert")
    return str(dict(item[0] for item in certificate["subject"])["commonName"])


# -- what clients say


def both_errors(address: str, ca: Path | None = None) -> tuple[TlsFailed, ShiftbossError]:
    """Of the SDK's client and of the commands'."""
    with pytest.raises(TlsFailed) as raised:
        HttpClient(Server.at(address, ca=ca)).send_blocking(HEALTH)
    with pytest.MonkeyPatch.context() as patch:
        if ca is not None:
            patch.setenv("SHIFTBOSS_CA", str(ca))
        with pytest.raises(NoSecureConnection) as of_command:
            Client(address).get("/health")
    assert raised.value.detail == of_command.value.detail
    assert "start" not in (of_command.value.hint or "")
    return raised.value, of_command.value


async def test_clients_that_trust_the_authority_are_answered(
    tmp_path: Path, authority: Authority, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(tmp_path, pair) as listener:
        address = f"https://{listener.host}:{listener.port}"
        trusting = HttpClient(Server.at(address, ca=authority.file))
        assert (await trusting.send(HEALTH)).answer["status"] == "healthy"
        # The certificate of the server itself can be trusted, too.
        assert (await HttpClient(Server.at(address, ca=pair.cert)).send(HEALTH)).answer
        for variable in ("SHIFTBOSS_CA", "SSL_CERT_FILE"):
            monkeypatch.setenv(variable, str(authority.file))
            assert (await HttpClient(Server.at(address)).send(HEALTH)).answer
            assert await asyncio.to_thread(Client(address).get, "/health")
            monkeypatch.delenv(variable)


async def test_an_authority_that_was_replaced_is_read_again(
    tmp_path: Path, authority: Authority, pair: Pair
) -> None:
    trusted = tmp_path / "ca.pem"
    trusted.write_bytes(Authority(tmp_path, "another authority").file.read_bytes())
    async with served(tmp_path, pair) as listener:
        address = f"https://{listener.host}:{listener.port}"
        client = HttpClient(Server.at(address, ca=trusted))
        with pytest.raises(TlsFailed):
            await client.send(HEALTH)
        trusted.write_bytes(authority.file.read_bytes() + b"\n")
        assert (await client.send(HEALTH)).answer


async def test_an_untrusted_certificate_is_named_with_what_to_do(
    tmp_path: Path, pair: Pair
) -> None:
    async with served(tmp_path, pair) as listener:
        address = f"https://{listener.host}:{listener.port}"
        error, _ = await asyncio.to_thread(both_errors, address)
    assert error.failure == "untrusted"
    assert "--ca or SHIFTBOSS_CA" in str(error.hint)
    assert "the authorities of this system" in str(error.hint)


async def test_another_host_name_is_named(tmp_path: Path, authority: Authority) -> None:
    pair = authority.issue("elsewhere", hosts=("shiftboss.example.org", "10.9.8.7"))
    async with served(tmp_path, pair) as listener:
        for host in ("127.0.0.1", "localhost"):
            address = f"https://{host}:{listener.port}"
            error, _ = await asyncio.to_thread(both_errors, address, authority.file)
            assert error.failure == "wrong_host"
            assert host in error.detail


@pytest.mark.parametrize(
    ("valid", "failure"),
    [((-2 * DAY, -DAY), "expired"), ((DAY, 2 * DAY), "not_yet_valid")],
)
async def test_a_certificate_out_of_its_time_is_named(
    tmp_path: Path, authority: Authority, valid: tuple[timedelta, timedelta], failure: str
) -> None:
    pair = authority.issue(failure, valid=valid)
    async with served(tmp_path, pair) as listener:
        address = f"https://{listener.host}:{listener.port}"
        error, _ = await asyncio.to_thread(both_errors, address, authority.file)
    assert error.failure == failure
    assert "clock" in str(error.hint)


async def test_tls_on_a_plain_port_is_named(tmp_path: Path, authority: Authority) -> None:
    async with served(tmp_path, None) as listener:
        address = f"https://{listener.host}:{listener.port}"
        error, _ = await asyncio.to_thread(both_errors, address, authority.file)
    assert error.failure == "no_tls"
    assert "http://" in str(error.hint)


async def test_plain_http_on_a_tls_port_is_named(tmp_path: Path, pair: Pair) -> None:
    async with served(tmp_path, pair) as listener:
        address = f"http://{listener.host}:{listener.port}"
        error, _ = await asyncio.to_thread(both_errors, address)
    assert error.failure == "tls_expected"
    assert "https://" in str(error.hint)


@pytest.mark.parametrize(
    "reply",
    [
        b"<center>The plain HTTP request was sent to HTTPS port</center>",
        b"Client sent an HTTP request to an HTTPS server.\n",
        b"Reason: You're speaking plain HTTP to an SSL-enabled server port.",
    ],
    ids=["nginx", "Go", "Apache"],
)
def test_plain_http_on_the_tls_port_of_a_proxy_is_named(reply: bytes) -> None:
    def answer_two(proxy: socket.socket) -> None:
        for _ in range(2):
            connection, _ = proxy.accept()
            with connection:
                connection.recv(65_536)
                head = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n"
                connection.sendall(head + b"Content-Length: %d\r\n\r\n" % len(reply) + reply)

    with socket.create_server(("127.0.0.1", 0)) as proxy:
        answering = threading.Thread(target=answer_two, args=(proxy,))
        answering.start()
        error, _ = both_errors(f"http://127.0.0.1:{proxy.getsockname()[1]}")
        answering.join()
    assert error.failure == "tls_expected"


def test_a_port_without_a_server_is_still_no_server(authority: Authority) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"https://127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(NoServer) as raised:
            Client(address).get("/health")
        assert not isinstance(raised.value, NoSecureConnection)


@pytest.mark.parametrize("content", [None, b"", b"rubbish"])
def test_an_unusable_file_of_authorities_is_named(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "ca.pem"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(InvalidRequest) as raised:
        Server.at("https://127.0.0.1:1", ca=file)
    assert raised.value.field == "ca"
    assert str(file) in raised.value.detail


async def test_a_worker_that_waits_for_a_better_certificate_says_so_once(
    tmp_path: Path, pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    async with served(tmp_path, pair) as listener:
        client = HttpClient(Server.at(f"https://{listener.host}:{listener.port}"))
        tries = 0

        def count(_: ShiftbossError) -> None:
            nonlocal tries
            tries += 1
            if tries == 2:
                waiting.cancel()

        with caplog.at_level(logging.WARNING, "shiftboss.client"):
            waiting = asyncio.create_task(client.send_until_answered(HEALTH, count))
            with pytest.raises(asyncio.CancelledError):
                await waiting
    assert caplog.text.count("is not trusted") == 1


# -- behind a proxy


@BOTH_PATHS
async def test_each_client_of_a_proxy_has_its_own_rate(tmp_path: Path, fast_path: bool) -> None:
    async with (
        served(
            tmp_path,
            None,
            fast_path=fast_path,
            rates=RateLimits(1, lambda: 0.0),
            forwarding=Forwarding(["127.0.0.1"]),
        ) as listener,
        connected(listener, None) as proxy,
    ):

        async def statuses(client: str) -> set[int]:
            sent = [
                await proxy.call("/bus/get_status", {}, X_Forwarded_For=client)
                for _ in range(round(BURST_SECONDS) + 1)
            ]
            return {status for status, _ in sent}

        assert await statuses("1.2.3.4") == {200, 429}
        status, _ = await proxy.call("/bus/get_status", {}, X_Forwarded_For="5.6.7.8")
        assert status == 200
        # What the client itself wrote before the proxy's own entry changes nothing.
        status, problem = await proxy.call(
            "/bus/get_status", {}, X_Forwarded_For="9.9.9.9, 1.2.3.4"
        )
        assert status == 429
        assert "1.2.3.4" in problem["detail"]


@BOTH_PATHS
async def test_a_client_cannot_get_another_rate_with_a_header(
    tmp_path: Path, fast_path: bool
) -> None:
    async with (
        served(
            tmp_path,
            None,
            fast_path=fast_path,
            rates=RateLimits(1, lambda: 0.0),
            forwarding=Forwarding(["10.0.0.1"]),
        ) as listener,
        connected(listener, None) as liar,
    ):
        statuses = [
            (await liar.call("/bus/get_status", {}, X_Forwarded_For=f"1.2.3.{number}"))[0]
            for number in range(round(BURST_SECONDS) + 1)
        ]
        assert statuses == [200] * 4 + [429]
