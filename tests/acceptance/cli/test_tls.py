"""A real server that speaks TLS, and the real clients: commands, SDK, hooks, runs, a verifier."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import ssl
from collections.abc import Iterator
from http.client import HTTPSConnection
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest

from shiftboss import BusWorker, SwarmWorker
from shiftboss.client.server_address import Server
from shiftboss.hooks.contract import read_contract
from shiftboss.hooks.server_client import HookServerUnreachable, call_server
from shiftboss.orchestrator.run.progress import Progress
from shiftboss.orchestrator.run.run_server import server_for_run
from shiftboss.orchestrator.run.server_process import ServerDown, ServerOptions
from shiftboss.worker.backends import get_backend
from tests.acceptance.hooks.hook_fixtures import TaskWorkspace
from tests.certificates import Authority, Pair
from tests.client import NO_CERTIFICATES
from tests.commands import running, shiftboss
from tests.running import RunningServer
from tests.sqlite_files import make_sqlite_file

pytestmark = pytest.mark.requirement("OWN-06")

TOKEN = "a-token-of-a-team"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def pair(authority: Authority) -> Pair:
    return authority.issue()


@pytest.fixture(scope="module")
def server(pair: Pair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    path = tmp_path_factory.mktemp("tls") / ".shiftboss" / "shiftboss.db"
    path.parent.mkdir(0o700)
    make_sqlite_file(path)
    running_server = RunningServer(path, **pair.settings)
    try:
        yield running_server.start()
    finally:
        running_server.close()


@pytest.fixture(autouse=True)
def system_authorities(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SHIFTBOSS_CA", "SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)


def http_client(server: RunningServer) -> httpx2.Client:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    return httpx2.Client(base_url=server.url, headers=headers, verify=NO_CERTIFICATES)


def serve(tmp_path: Path, *options: str) -> tuple[int, str]:
    done = shiftboss("serve", "--port", "0", "--db", str(tmp_path / "x.db"), *options)
    assert done.out == ""
    return done.code, done.err


def test_commands_talk_to_it_with_its_authority(
    server: RunningServer, authority: Authority
) -> None:
    assert server.url.startswith("https://127.0.0.1:")
    ca = str(authority.file)
    made = shiftboss("swarm", "create", "--id", "tls", "--ca", ca, "--json", url=server.url)
    assert json.loads(made.out)["endpoint"] == f"{server.url}/swarm/tls"
    assert shiftboss("swarm", "list", url=server.url, SHIFTBOSS_CA=ca).code == 0
    assert shiftboss("swarm", "list", url=server.url, SSL_CERT_FILE=ca).code == 0
    events = shiftboss("events", "tls", "--ca", ca, url=server.url)
    assert (events.code, "swarm" in events.out) == (0, True)


def test_a_command_that_does_not_trust_it_says_why(server: RunningServer, tmp_path: Path) -> None:
    done = shiftboss("status", url=server.url)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(f"the certificate of {server.url} is not trusted: ")
    assert "--ca or SHIFTBOSS_CA" in done.err
    missing = shiftboss("status", "--ca", str(tmp_path / "none.pem"), url=server.url)
    assert missing.code == 1
    assert f"cannot use {tmp_path / 'none.pem'}" in missing.err


def test_commands_in_its_folder_find_it(server: RunningServer, authority: Authority) -> None:
    folder = Path(server.database).parent.parent
    found = shiftboss("doctor", "--json", "--ca", str(authority.file), folder=folder)
    findings = json.loads(found.out)["findings"]
    assert any(server.url in json.dumps(finding) for finding in findings)
    # It runs, so nobody may answer from its database instead.
    refused = shiftboss("swarm", "list", folder=folder)
    assert (refused.code, refused.out) == (1, "")
    assert "is not trusted" in refused.err


def test_a_relative_file_works_in_other_folders(
    server: RunningServer, authority: Authority
) -> None:
    name, folder = authority.file.name, authority.file.parent
    done = shiftboss("swarm", "list", "--ca", name, url=server.url, folder=folder)
    assert done.code == 0


def test_workers_take_the_file_as_an_argument(
    server: RunningServer, authority: Authority, tmp_path: Path
) -> None:
    ca = authority.file

    async def work() -> None:
        address = urlsplit(server.url)
        config = {"host": address.hostname, "port": address.port, "ca": str(ca)}
        backend = get_backend("mcp-streamable-http", config)
        swarm_id = await backend.create_swarm("a feature")
        packet = SwarmWorker(swarm_id, 1, "one", tmp_path, 1, server=server.url, ca=ca)
        assert (await packet.register())["registered"] is True
        added = shiftboss("task", "add", "t1", "--title", "a task", "--ca", str(ca), url=server.url)
        assert added.code == 0, added.err
        assert shiftboss("task", "submit", "t1", "--ca", str(ca), url=server.url).code == 0
        async with BusWorker("w", server=server.url, ca=ca) as worker:
            async for task in worker.tasks():
                await task.done()
                break

    asyncio.run(asyncio.wait_for(work(), 60))


def test_hooks_verify_it_as_well(
    server: RunningServer,
    authority: Authority,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    workspace = TaskWorkspace(tmp_path, server_url=server.url, swarm_id="default")
    contract = read_contract(workspace.contract)
    with pytest.raises(HookServerUnreachable, match="is not trusted"):
        call_server(contract, "show_handoff")
    monkeypatch.setenv("SHIFTBOSS_CA", str(authority.file))
    with pytest.raises(HookServerUnreachable, match="status 404"):
        call_server(contract, "show_handoff")


def test_a_run_does_not_start_with_a_server_that_it_cannot_trust(
    server: RunningServer, tmp_path: Path
) -> None:
    options = ServerOptions(
        server=Server.at(server.url),
        database=str(tmp_path / "x.db"),
        state=tmp_path,
        log=tmp_path / "log",
        policy=None,
    )

    async def start() -> None:
        async with server_for_run(options, Progress()):
            pass

    with pytest.raises(ServerDown, match="is not trusted") as raised:
        asyncio.run(asyncio.wait_for(start(), 60))
    assert "--ca or SHIFTBOSS_CA" in str(raised.value.hint)


def test_a_verifier_says_why_it_waits(server: RunningServer, tmp_path: Path) -> None:
    command = ("verifier", "--folder", str(tmp_path / "v"), "--server", server.url)
    with running(*command, SHIFTBOSS_OPERATOR_TOKEN="x") as verifier:
        assert "verifies for" in verifier.line()
        assert "is not trusted" in verifier.error_line()
        verifier.signal(signal.SIGINT)


def test_the_own_origin_is_https(server: RunningServer, authority: Authority) -> None:
    url = urlsplit(server.url)
    context = ssl.create_default_context(cafile=authority.file)
    statuses = []
    for origin in (f"https://{url.netloc}", f"http://{url.netloc}", "https://evil.example"):
        connection = HTTPSConnection(str(url.hostname), url.port, context=context, timeout=20)
        connection.request("GET", "/swarms", headers={"Origin": origin})
        statuses.append(connection.getresponse().status)
        connection.close()
    assert statuses == [200, 403, 403]


@pytest.mark.parametrize(("version", "is_answered"), [(b"\x03\x02", False), (b"\x03\x03", True)])
def test_tls_1_2_is_the_oldest_version(
    server: RunningServer, version: bytes, is_answered: bool
) -> None:
    """A ClientHello by hand: Python itself does not speak TLS 1.1 any more."""
    url = urlsplit(server.url)
    cipher = b"\xc0\x2b"  # ECDHE-ECDSA-AES128-GCM-SHA256
    curves = b"\0\x0a\0\x04\0\x02\0\x17"
    algorithms = b"\0\x0d\0\x04\0\x02\x04\x03"
    extensions = curves + algorithms
    hello = version + bytes(32) + b"\0" + b"\0\x02" + cipher + b"\x01\0"
    hello += len(extensions).to_bytes(2) + extensions
    message = b"\x01" + len(hello).to_bytes(3) + hello
    with socket.create_connection((str(url.hostname), url.port or 0), 20) as plain:
        plain.sendall(b"\x16\x03\x01" + len(message).to_bytes(2) + message)
        answer = plain.recv(100)
    assert answer.startswith(b"\x16") is is_answered


def test_it_stops_while_a_handshake_is_open(pair: Pair, sqlite_path: str) -> None:
    server = RunningServer(sqlite_path, **pair.settings).start()
    url = urlsplit(server.url)
    try:
        with socket.create_connection((str(url.hostname), url.port or 0), 20) as silent:
            silent.sendall(b"\x16\x03\x01")
            server.stop()
    finally:
        server.close()


def test_serve_refuses_half_a_pair_and_keys_of_others(tmp_path: Path, pair: Pair) -> None:
    code, error = serve(tmp_path, "--tls-cert", str(pair.cert))
    assert (code, error) == (1, "tls_key: TLS needs the certificate and its key; add --tls-key\n")
    readable = tmp_path / "server.key"
    readable.write_bytes(pair.key.read_bytes())
    readable.chmod(0o644)
    code, error = serve(tmp_path, "--tls-cert", str(pair.cert), "--tls-key", str(readable))
    assert (code, error) == (
        1,
        f"tls_key: {readable} can be read by other users (mode 0644); run: chmod 600 {readable}\n",
    )
    assert not (tmp_path / "x.db").exists()


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (("--behind-proxy", "127.0.0.1"), "other machines can reach the server through the proxy"),
        (("--public-url", "https://s.example.org"), "https://s.example.org is for other machines"),
        (("--public-url", "s.example.org"), "public_url: must be an address"),
        (("--behind-proxy", "proxy"), "behind_proxy: 'proxy' is not an address"),
    ],
)
def test_serve_refuses_what_would_open_it(
    tmp_path: Path, options: tuple[str, str], error: str
) -> None:
    code, told = serve(tmp_path, *options)
    assert code == 1
    assert told.startswith(error)


def test_behind_a_proxy_the_endpoint_is_what_the_client_sees(sqlite_path: str) -> None:
    server = RunningServer(sqlite_path, token=TOKEN, behind_proxy=["127.0.0.1"]).start()
    try:
        forwarded = {"X-Forwarded-Proto": "https", "X-Forwarded-Host": "s.example.org"}
        client = http_client(server)
        made = client.post("/swarm/create", json={"swarm_id": "a"}, headers=forwarded)
        assert made.json()["endpoint"] == "https://s.example.org/swarm/a"
        client.close()
    finally:
        server.close()


def test_a_public_url_is_the_address_that_the_server_names(sqlite_path: str) -> None:
    public = "https://shiftboss.example.org"
    server = RunningServer(sqlite_path, token=TOKEN, public_url=f"{public}/").start()
    try:
        forwarded = {"X-Forwarded-Proto": "http", "X-Forwarded-Host": "evil.example"}
        client = http_client(server)
        made = client.post("/swarm/create", json={"swarm_id": "a"}, headers=forwarded)
        assert made.json()["endpoint"] == f"{public}/swarm/a"
        assert client.get("/openapi.json").json()["servers"] == [{"url": public}]
        client.close()
    finally:
        server.close()


def test_a_server_without_proxies_believes_no_header(sqlite_path: str) -> None:
    server = RunningServer(sqlite_path, token=TOKEN).start()
    try:
        forwarded = {"X-Forwarded-Proto": "https", "X-Forwarded-Host": "evil.example"}
        client = http_client(server)
        made = client.post("/swarm/create", json={"swarm_id": "a"}, headers=forwarded)
        assert made.json()["endpoint"] == f"{server.url}/swarm/a"
        client.close()
    finally:
        server.close()
