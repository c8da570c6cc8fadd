"""Who may send requests: web pages may not, other machines only with the token."""

from __future__ import annotations

import resource
import sqlite3
from pathlib import Path

import httpx2
import pytest

from tests.client import Client
from tests.running import RunningServer


@pytest.mark.requirement("SW-12")
@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "evil.example:7432"},
        {"Host": "127.0.0.1.evil.example"},
        {"Host": ""},
        {"Host": "[::1"},
        {"Host": "[::1].evil.example"},
        {"Host": "evil@127.0.0.1"},
        {"Host": "evil.example#@127.0.0.1"},
        {"Host": "127.0.0.1:7432@evil.example"},
        {"Host": "127.0.0.1/evil.example"},
        {"Host": "127.0.0.1, evil.example"},
        {"Host": "127.0.0.1:99999"},
        {"Host": "127.0.0.1:"},
        {"Host": "127.0.0.1.:80"},
        {"Host": "127.1"},
        {"Host": "0x7f000001"},
        {"Host": "2130706433"},
        {"Host": "0.0.0.0"},
        {"Host": "[127.0.0.1]"},
        {"Host": "[::1%25lo]"},
        {"Host": "localhost.localdomain"},
        {"Origin": "https://evil.example"},
        {"Origin": "http://localhost.evil.example"},
        {"Origin": "null"},
        {"Origin": "http://["},
        {"Origin": ""},
        {"Origin": "http://localhost:3000"},
        {"Origin": "http://127.0.0.1"},
        {"Origin": "http://127.0.0.1:7432"},
        {"Origin": "file://"},
    ],
)
def test_a_foreign_host_or_origin_is_refused(
    shared_server: RunningServer, headers: dict[str, str]
) -> None:
    url = shared_server.url
    answer = httpx2.post(f"{url}/swarm/create", headers=headers, trust_env=False)
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    assert httpx2.get(f"{url}/swarms", trust_env=False).json()["swarms"] == []


@pytest.mark.requirement("SW-12")
@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "localhost:1"},
        {"Host": "[::1]:7432"},
        {"Host": "127.0.0.2"},
        {"Host": "LocalHost:7432"},
        {"Host": "localhost:3000", "Origin": "http://localhost:3000"},
        {"Host": "127.0.0.1:7432", "Origin": "http://127.0.0.1:7432"},
    ],
)
def test_loopback_host_names_and_the_own_origin_are_accepted(
    shared_server: RunningServer, headers: dict[str, str]
) -> None:
    answer = httpx2.get(f"{shared_server.url}/health", headers=headers, trust_env=False)
    assert answer.status_code == 200
    assert answer.json()["status"] == "healthy"


@pytest.mark.requirement("SW-12")
def test_a_public_address_without_a_token_does_not_start(sqlite_path: str) -> None:
    running = RunningServer(sqlite_path, host="0.0.0.0")
    with pytest.raises(AssertionError, match="token"):
        running.start()
    running.close()


@pytest.mark.requirement("SW-12")
def test_with_a_token_every_request_needs_it(tmp_path: Path) -> None:
    running = RunningServer(tmp_path / "db", host="0.0.0.0", token="s3cret-token")
    try:
        url = running.start().url.replace("0.0.0.0", "127.0.0.1")
        for token in (None, "wrong", "s3cret-tokeN"):
            client = Client(url, token)
            answer = client.post("/swarm/create", {})
            assert (answer.status_code, answer.json()["code"]) == (401, "unauthorized")
            assert "s3cret" not in answer.text
            client.close()
        client = Client(url, "s3cret-token")
        assert client.create_swarm()
        client.close()
    finally:
        running.close()
    assert "s3cret" not in (tmp_path / "db").read_bytes().decode("latin-1")


@pytest.mark.requirement("SW-12")
def test_a_second_server_on_the_same_file_is_refused_even_through_a_link(
    server: RunningServer, tmp_path: Path
) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(server.database)
    for path in (server.database, link):
        second = RunningServer(path)
        with pytest.raises(AssertionError, match="a server is using"):
            second.start()
        second.close()


@pytest.mark.requirement("SW-12")
def test_a_database_from_a_later_version_is_refused_at_startup(sqlite_path: str) -> None:
    connection = sqlite3.connect(sqlite_path)
    connection.execute("PRAGMA user_version = 99")
    # It does not say that servers like this one can work with it.
    connection.execute("UPDATE schema_support SET works_since = 99")
    connection.commit()
    connection.close()
    running = RunningServer(sqlite_path)
    with pytest.raises(AssertionError, match="schema version 99"):
        running.start()
    running.close()


@pytest.mark.requirement("SW-12")
def test_a_server_that_cannot_write_reports_itself_unhealthy(
    server: RunningServer, client: Client
) -> None:
    client.create_swarm()
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    assert client.post("/swarm/create", {}).status_code == 503
    sick = client.get("/health")
    assert (sick.status_code, sick.json()["code"]) == (503, "store_unavailable")
    resource.prlimit(
        server.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    )
    client.create_swarm()
    assert client.get("/health").json()["status"] == "healthy"


@pytest.mark.requirement("SW-12")
def test_endless_headers_are_refused(server: RunningServer) -> None:
    headers = {f"X-{number}": "x" * 10_000 for number in range(500)}
    answer = httpx2.get(f"{server.url}/health", headers=headers, trust_env=False)
    assert (answer.status_code, answer.json()["code"]) == (431, "head_too_large")
    assert httpx2.get(f"{server.url}/health", trust_env=False).status_code == 200
