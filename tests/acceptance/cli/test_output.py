"""Output on a terminal: tables that fit, colours only if supported, no control characters."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta

import pytest

from tests.acceptance.swarms.packets import (
    SWARM,
    accepted,
    complete_body,
    error_body,
    progress_body,
    register_body,
)
from tests.client import Client
from tests.commands import on_terminal, shiftboss
from tests.running import RunningServer

WIDTHS = [60, 80, 120]
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture
def server(shared_server: RunningServer, shared_client: Client) -> RunningServer:
    """Of all tests of this module; each begins without a swarm."""
    return shared_server


@pytest.fixture
def client(shared_client: Client) -> Client:
    return shared_client


@pytest.fixture
def busy_server(server: RunningServer, client: Client) -> RunningServer:
    """A swarm with a worker in every state."""
    client.create_swarm(swarm_id=SWARM, feature="Sign in with a key, and " * 6)
    names = {1: "backend-api", 2: "a-packet-with-a-rather-long-name-" * 2 + "x", 3: "handbook"}
    for packet_id, name in names.items():
        accepted(client, "register", register_body(packet_id, packet_name=name))
    accepted(client, "progress", progress_body(1, tasks_completed=4))
    accepted(client, "error", error_body(1, error_type="test_flake", message="flaky " * 40))
    accepted(client, "error", error_body(2))
    accepted(client, "complete", complete_body(3))
    return server


def _seen(text: str) -> list[str]:
    return _COLOURS.sub("", text).splitlines()


@pytest.mark.requirement("SW-12")
@pytest.mark.parametrize("columns", WIDTHS)
@pytest.mark.parametrize(
    "command",
    [
        ("swarm", "show", SWARM),
        ("swarm", "list"),
        ("status",),
        ("status", SWARM),
        ("events", SWARM),
    ],
    ids=" ".join,
)
def test_no_line_is_wider_than_the_terminal(
    busy_server: RunningServer, command: tuple[str, ...], columns: int
) -> None:
    lines = _seen(on_terminal(*command, url=busy_server.url, columns=columns))
    assert SWARM in "\n".join(lines)
    # The line about the server contains an address to copy; the terminal may wrap it.
    assert max(len(line) for line in lines if "healthy" not in line) <= columns


@pytest.mark.requirement("SW-12")
@pytest.mark.parametrize("columns", WIDTHS)
def test_each_worker_has_one_row_at_every_width(busy_server: RunningServer, columns: int) -> None:
    text = on_terminal("swarm", "show", SWARM, url=busy_server.url, columns=columns)
    lines = _seen(text)
    (first,) = [line for line in lines if "backend-api" in line]
    assert re.match(r" *1 +backend-api +running +1 +[━╸╺ ]*4/10 +\d+s ago +scheduled \d+s", first)
    (second,) = [line for line in lines if "a-packet-with" in line]
    assert re.match(r" *2 +a-packet-with\S*… +failed +1 +[━ ]*0/10 ", second)
    (third,) = [line for line in lines if "handbook" in line]
    assert re.match(r" *3 +handbook +complete +1 +[━ ]*0/10 ", third)
    assert "test_failure: " in text


@pytest.mark.requirement("SW-12")
def test_colours_are_used_only_on_terminals(busy_server: RunningServer) -> None:
    assert "\x1b[" not in shiftboss("swarm", "show", SWARM, url=busy_server.url).out
    assert _COLOURS.search(on_terminal("swarm", "show", SWARM, url=busy_server.url, columns=80))


@pytest.mark.requirement("SW-09")
def test_a_long_event_stays_on_one_line_in_a_pipe(busy_server: RunningServer) -> None:
    lines = shiftboss("events", SWARM, url=busy_server.url).out.splitlines()
    assert [line.split()[0] for line in lines] == [
        str(number) for number in range(1, len(lines) + 1)
    ]
    assert max(len(line) for line in lines) > 200


@pytest.mark.requirement("OWN-11")
@pytest.mark.parametrize(
    "command", [("swarm", "show", SWARM), ("swarm", "list"), ("status", SWARM)], ids=" ".join
)
def test_nothing_is_cut_off_or_padded_in_a_pipe(
    busy_server: RunningServer, command: tuple[str, ...]
) -> None:
    out = shiftboss(*command, url=busy_server.url, COLUMNS="40").out
    assert ("Sign in with a key, and " * 6).strip() in out
    assert "…" not in out
    assert not re.search(r" +$", out, re.MULTILINE)


@pytest.mark.requirement("OWN-11")
def test_colours_are_off_with_no_color(busy_server: RunningServer) -> None:
    shown = on_terminal("swarm", "show", SWARM, url=busy_server.url, columns=80, NO_COLOR="1")
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]m", shown)
    assert "failed" in shown


@pytest.mark.requirement("OWN-11")
def test_an_event_has_a_local_time_and_in_json_one_in_utc(busy_server: RunningServer) -> None:
    zone = {"TZ": "XYZ-3"}
    (first, *_) = shiftboss("events", SWARM, url=busy_server.url, **zone).out.splitlines()
    (document, *_) = shiftboss("events", SWARM, "--json", url=busy_server.url).out.splitlines()
    at = datetime.fromisoformat(json.loads(document)["at"])
    assert at.tzinfo == UTC
    assert first.split()[1:3] == f"{at + timedelta(hours=3):%Y-%m-%d %H:%M:%S}".split()


TRICKS = "[bold]x[/bold] [/] :smile: \x1b[2J\x1b]0;title\x07 \u202e \r\n\ttab"
PLAIN = r"[bold]x[/bold] [/] :smile: \x1b[2J\x1b]0;title\x07 \u202e \r\n\ttab"


@pytest.mark.requirement("SW-12")
@pytest.mark.parametrize("columns", [400])
@pytest.mark.parametrize(
    "command",
    [
        ("swarm", "show", SWARM),
        ("swarm", "list"),
        ("status",),
        ("status", SWARM),
        ("events", SWARM),
    ],
    ids=" ".join,
)
def test_values_from_the_server_are_shown_as_plain_text(
    server: RunningServer, client: Client, command: tuple[str, ...], columns: int
) -> None:
    client.create_swarm(swarm_id=SWARM, feature=TRICKS)
    accepted(client, "register", register_body())
    accepted(client, "error", error_body(error_type="rate_limit", message=TRICKS))
    text = on_terminal(*command, url=server.url, columns=columns)
    assert PLAIN in _COLOURS.sub("", text)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\u202e]", _COLOURS.sub("", text))


@pytest.mark.requirement("SW-13")
def test_problem_details_are_shown_as_plain_text(server: RunningServer) -> None:
    done = shiftboss("status", "a\x1b[2Jb", url=server.url)
    assert (done.code, done.out) == (1, "")
    assert r"a\x1b[2Jb" in done.err
    assert "\x1b" not in done.err
