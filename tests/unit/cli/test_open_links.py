"""The link of a server, before `shiftboss open` gives it to a browser."""

from __future__ import annotations

import pytest

from shiftboss.cli.commands.server.open_page import reachable
from shiftboss.cli.common.client import NotShiftboss

pytestmark = pytest.mark.requirement("OWN-04")

OURS = "https://boss.example.com"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://127.0.0.1:7432/login#c/s/x/board", f"{OURS}/login#c/s/x/board"),
        ("https://page.example.com/base/login#c", "https://page.example.com/base/login#c"),
        ("http://[2001:db8::1]:7432/login#c", "http://[2001:db8::1]:7432/login#c"),
    ],
)
def test_the_link_is_where_the_command_has_reached_the_server(url: str, shown: str) -> None:
    assert reachable(url, OURS) == shown


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "javascript:alert(1)",
        "vscode://x/y",
        "--remote-debugging-port=1",
        "-a",
        "/login",
        "",
        "http://",
        "http://x:0/",
        "http://x:port/",
        "http://[x/",
        "http://x/ --new-window",
        'http://x/"&open -a Calculator',
        "http://x/'`id`",
        "http://x/\x1b]0;y\x07",
        "http://x/\u202egnp",
        "http://boss.example.com@evil.example/",
        "http://evil.example\\@boss.example.com/",
    ],
)
def test_a_hostile_server_opens_nothing_else_than_a_page(url: str) -> None:
    with pytest.raises(NotShiftboss, match="gave no link"):
        reachable(url, OURS)
