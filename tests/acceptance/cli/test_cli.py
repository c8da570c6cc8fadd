"""The everyday commands, against a real server."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.main import get_command

from shiftboss import __version__
from shiftboss.cli.common.discovery import find_target
from shiftboss.cli.main import app
from shiftboss.protocol.packets import checkpoint_path
from tests.acceptance.swarms.packets import (
    SWARM,
    accepted,
    complete_body,
    error_body,
    progress_body,
    register_body,
)
from tests.client import Client
from tests.commands import environment, running, shiftboss
from tests.running import RunningServer

COMMANDS_OF_A_SWARM = [
    ("swarm", "show", "nope"),
    ("swarm", "clean", "nope"),
    ("status", "nope"),
    ("events", "nope"),
    ("events", "nope", "--follow"),
]


@pytest.mark.requirement("SW-13")
def test_a_created_swarm_has_the_given_settings(server: RunningServer, client: Client) -> None:
    done = shiftboss(
        *("swarm", "create", "--id", "billing", "--feature", "Invoices", "--auto-merge"),
        *("--manifest-path", "plans/billing.json", "--workers-expected", "3"),
        url=server.url,
    )
    assert done == (0, "swarm billing\n", "")
    status = client.status("billing")
    assert status["feature"] == "Invoices"
    assert status["auto_merge"] is True
    assert status["workers_expected"] == 3


@pytest.mark.requirement("SW-13")
def test_a_swarm_without_an_id_gets_one_and_json_output_is_the_servers_reply(
    server: RunningServer, client: Client
) -> None:
    done = shiftboss("swarm", "create", "--json", url=server.url)
    answer = json.loads(done.out)
    assert client.status(answer["swarm_id"])["status"] == "created"
    assert answer.keys() == client.post("/swarm/create", {}).json().keys()


@pytest.mark.requirement("SW-13")
def test_creating_a_swarm_again_succeeds_unless_its_settings_differ(
    server: RunningServer,
) -> None:
    create = ("swarm", "create", "--id", "one")
    assert shiftboss(*create, url=server.url).code == 0
    assert shiftboss(*create, url=server.url).code == 0
    done = shiftboss(*create, "--feature", "another", url=server.url)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("swarm one already exists with other settings; ")


@pytest.mark.requirement("SW-13")
@pytest.mark.parametrize("command", COMMANDS_OF_A_SWARM, ids=" ".join)
def test_an_unknown_swarm_is_a_one_line_error_with_a_hint(
    server: RunningServer, command: tuple[str, ...]
) -> None:
    done = shiftboss(*command, url=server.url)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("Unknown swarm: nope; `shiftboss swarm list` lists the ")
    assert done.err.count("\n") == 1


@pytest.mark.requirement("SW-13")
@pytest.mark.parametrize("command", COMMANDS_OF_A_SWARM, ids=" ".join)
def test_an_unknown_swarm_is_a_problem_document_with_json_output(
    server: RunningServer, client: Client, command: tuple[str, ...]
) -> None:
    done = shiftboss(*command, "--json", url=server.url)
    assert (done.code, done.err) == (1, "")
    assert json.loads(done.out) == client.get("/swarm/nope/status").json()


@pytest.fixture
def closed_address() -> Iterator[str]:
    """An address where nothing listens during the test."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


@pytest.mark.requirement("SW-13")
@pytest.mark.parametrize(
    "command",
    [("swarm", "create"), ("swarm", "list"), ("status",), *COMMANDS_OF_A_SWARM],
    ids=" ".join,
)
def test_a_missing_server_is_a_one_line_error_that_says_how_to_start_one(
    closed_address: str, command: tuple[str, ...]
) -> None:
    done = shiftboss(*command, "--server", closed_address)
    port = closed_address.rpartition(":")[2]
    start = f"start one with: shiftboss serve --port {port}"
    assert done == (1, "", f"no server at {closed_address}; {start}\n")


@pytest.mark.requirement("SW-13")
@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH_9.9\r\n",
        b"HTTP/1.0 200 OK\r\n\r\n<html>",
        b"HTTP/1.0 200 OK\r\n\r\n[]",
        b'HTTP/1.0 200 OK\r\n\r\n{"hello": 1}',
        b"HTTP/1.0 302 Found\r\nLocation: /login\r\n\r\n",
        b"HTTP/1.0 502 Bad Gateway\r\n\r\noops",
    ],
)
@pytest.mark.parametrize("command", [("swarm", "list"), ("events", "x")], ids=" ".join)
def test_another_program_at_the_address_is_recognised(
    command: tuple[str, ...], answer: bytes
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def say_it() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(answer)

        saying = threading.Thread(target=say_it)
        saying.start()
        done = shiftboss(*command, url=f"http://127.0.0.1:{listening.getsockname()[1]}")
        saying.join()
    assert (done.code, done.out) == (1, "")
    assert done.err.endswith("; is --server right?\n")
    assert done.err.count("\n") == 1


@pytest.mark.requirement("SW-13")
@pytest.mark.parametrize(
    "address", ["127.0.0.1:7432", "ftp://x", "http://", "http://h:p", "http://h?a"]
)
def test_an_invalid_address_is_refused(address: str) -> None:
    done = shiftboss("status", "--server", address)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(f"not the address of a server: {address}; ")


@pytest.mark.requirement("SW-13")
def test_the_list_fetches_every_page(server: RunningServer, client: Client) -> None:
    ids = [client.create_swarm(swarm_id=f"swarm-{number}") for number in range(205)]

    def listed(*arguments: str) -> tuple[list[str], bool]:
        listing = json.loads(shiftboss("swarm", "list", "--json", *arguments, url=server.url).out)
        return [one["swarm_id"] for one in listing["swarms"]], listing["next_before"] is not None

    everything, more = listed("--all")
    assert (sorted(everything), more) == (sorted(ids), False)
    assert listed("--limit", "203") == (everything[:203], True)
    assert listed() == (everything[:50], True)
    text = shiftboss("swarm", "list", "--limit", "2", url=server.url).out
    assert [line.split()[0] for line in text.splitlines()[1:3]] == everything[:2]
    assert text.endswith("there are more: shiftboss swarm list --all\n")


@pytest.mark.requirement("SW-13")
def test_a_page_of_the_list_is_exactly_the_servers_json(
    server: RunningServer, client: Client
) -> None:
    client.create_swarm(swarm_id="one", feature="Größe")
    done = shiftboss("swarm", "list", "--json", url=server.url)
    assert done.out == client.get("/swarms").text + "\n"


@pytest.mark.requirement("SW-12")
def test_show_and_status_print_the_servers_json(server: RunningServer, client: Client) -> None:
    client.create_swarm(swarm_id=SWARM)
    accepted(client, "register", register_body())
    document = client.get(f"/swarm/{SWARM}/status").text + "\n"
    assert shiftboss("status", SWARM, "--json", url=server.url).out == document
    shown = json.loads(shiftboss("swarm", "show", SWARM, "--json", url=server.url).out)
    assert shown == json.loads(document) | {"tasks": []}


@pytest.mark.requirement("SW-12")
def test_status_summarises_the_swarm_in_a_few_lines(server: RunningServer, client: Client) -> None:
    client.create_swarm(swarm_id=SWARM, workers_expected=3)
    for packet_id in (1, 2):
        accepted(client, "register", register_body(packet_id))
    accepted(client, "progress", progress_body())
    accepted(client, "complete", complete_body())
    lines = [" ".join(line.split()) for line in _lines("status", SWARM, url=server.url)]
    assert "status running" in lines
    assert "packets 2 registered, 1 running, 1 complete, 0 failed (3 expected)" in lines
    assert "steps 1 of 20 completed" in lines
    assert "merge not ready" in lines


@pytest.mark.requirement("SW-12")
def test_status_of_the_server_shows_its_health_and_what_is_running(
    server: RunningServer, client: Client
) -> None:
    assert _lines("status", url=server.url)[1:] == ["nothing is running or waiting"]
    client.create_swarm(swarm_id=SWARM)
    accepted(client, "register", register_body())
    client.create_swarm(swarm_id="idle")
    lines = _lines("status", url=server.url)
    assert lines[0].startswith(f"Shiftboss {__version__} at {server.url} is healthy: store sqlite")
    assert lines[1].startswith(f"{SWARM}  running  ")
    assert [line.strip() for line in lines[2:]] == ["0 of 1 packets complete"]
    seen = json.loads(shiftboss("status", "--json", url=server.url).out)
    assert seen["health"]["status"] == "healthy"
    assert [one["swarm_id"] for one in seen["swarms"]] == [SWARM]


def _without_time(line: str) -> str:
    event_id, date, clock, *rest = line.split()
    datetime.fromisoformat(f"{date} {clock}")
    return " ".join([event_id, *rest])


@pytest.mark.requirement("SW-09")
def test_events_after_the_given_id_are_printed_one_per_line(
    server: RunningServer, client: Client
) -> None:
    client.create_swarm(swarm_id=SWARM)
    accepted(client, "register", register_body())
    accepted(client, "progress", progress_body())
    accepted(client, "error", error_body(message="out of time"))
    lines = [_without_time(line) for line in _lines("events", SWARM, url=server.url)]
    assert lines[1:] == [
        "2 worker_registered packet 1: backend-api registered, 10 tasks",
        "3 progress_update packet 1: task-1 completed, 1 of 10, commit abc1234567",
        "4 worker_error packet 1: task-6 failed with test_failure: out of time; no retry",
    ]
    since = _lines("events", SWARM, "--since", "2", "--json", url=server.url)
    events = [json.loads(line) for line in since]
    assert all(datetime.fromisoformat(event.pop("at")).tzinfo == UTC for event in events)
    assert events == [
        {"id": event.event_id, "event": event.kind, "data": event.data, "actor": "local"}
        for event in client.stored_events(SWARM, since=2)
    ]


@pytest.mark.requirement("SW-09")
def test_following_events_survives_a_server_crash_until_ctrl_c(
    server: RunningServer, client: Client
) -> None:
    client.create_swarm(swarm_id=SWARM)
    with running("events", SWARM, "--follow", "--json", url=server.url) as following:
        assert json.loads(following.line())["id"] == 1
        accepted(client, "register", register_body())
        assert json.loads(following.line())["event"] == "worker_registered"
        server.kill()
        server.start()
        accepted(client, "progress", progress_body())
        assert json.loads(following.line())["id"] == 3
        following.signal(signal.SIGINT)
        done = following.end()
    assert (done.code, done.out) == (130, "")
    assert set(done.err.splitlines()) == {"connection lost; connecting again"}


@pytest.mark.requirement("SW-09")
def test_a_closed_pipe_ends_the_command_silently(server: RunningServer, client: Client) -> None:
    client.create_swarm(swarm_id=SWARM)
    with running("events", SWARM, "--follow", url=server.url) as following:
        following.line()
        following.hang_up()
        accepted(client, "register", register_body())
        assert following.end().err == ""


@pytest.mark.requirement("SW-11")
def test_clean_removes_the_checkpoints_of_complete_swarms_only(
    server: RunningServer, client: Client, tmp_path: Path
) -> None:
    client.create_swarm(swarm_id=SWARM)
    accepted(client, "register", register_body(worktree=str(tmp_path)))
    marker = checkpoint_path(tmp_path, 1, "backend-api")
    marker.parent.mkdir(parents=True)
    marker.write_text(
        json.dumps(
            {"event": "complete", "packet_id": 1, "packet_name": "backend-api"}
            | {"tasks_completed": 10, "tasks_total": 10, "timestamp": "2026-01-05T10:00:00+00:00"}
        )
    )
    done = shiftboss("swarm", "clean", SWARM, url=server.url)
    assert done == (1, "", f"swarm {SWARM} is running; its checkpoints are still needed\n")
    assert marker.exists()
    accepted(client, "complete", complete_body())
    assert shiftboss("swarm", "clean", SWARM, url=server.url) == (0, f"removed {marker}\n", "")
    assert not marker.exists()
    done = shiftboss("swarm", "clean", SWARM, "--json", url=server.url)
    assert json.loads(done.out) == {"removed": []}


@pytest.mark.requirement("SW-13")
def test_everyday_commands_import_nothing_heavy(server: RunningServer, client: Client) -> None:
    client.create_swarm()
    heavy = {"uvicorn", "starlette", "pydantic", "pydantic_core", "mcp", "httpx2", "asyncio"}
    imported = _imported("swarm", "list", url=server.url)
    assert "rich.table" in imported
    assert heavy & {module.split(".")[0] for module in imported} == set()
    assert not any(
        module.startswith(("shiftboss.server", "shiftboss.coordinator", "shiftboss.store"))
        for module in imported
    )
    assert "rich" not in _imported("swarm", "list", "--json", url=server.url)


def _imported(*arguments: str, url: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "shiftboss.cli.main", *arguments],
        env=environment(url),
        capture_output=True,
        text=True,
        check=True,
    )
    return {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}


@pytest.mark.requirement("SW-13")
def test_every_command_and_option_has_help() -> None:
    def unexplained(command: object, name: str) -> Iterator[str]:
        if not getattr(command, "help", None):
            yield name
        for parameter in getattr(command, "params", []):
            if not parameter.help:
                yield f"{name} {parameter.name}"
        for child, below in getattr(command, "commands", {}).items():
            yield from unexplained(below, f"{name} {child}")

    assert list(unexplained(get_command(app), "shiftboss")) == []


@pytest.mark.requirement("SW-13")
def test_version_and_shell_completion_are_available() -> None:
    assert shiftboss("--version") == (0, f"shiftboss {__version__}\n", "")
    variables = {"COMP_WORDS": "shiftboss swarm c", "COMP_CWORD": "2"}
    done = shiftboss(_SHIFTBOSS_COMPLETE="complete_bash", **variables)
    assert done.out.split() == ["create", "clean"]


@pytest.mark.requirement("SW-12")
def test_commands_default_to_the_address_the_server_listens_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    commands = getattr(get_command(app), "commands", {})
    default = {one.name: one.default for one in commands["serve"].params}
    assert find_target(None).address == f"http://{default['host']}:{default['port']}"


def _lines(*arguments: str, url: str) -> list[str]:
    done = shiftboss(*arguments, url=url)
    assert (done.code, done.err) == (0, "")
    return done.out.splitlines()
