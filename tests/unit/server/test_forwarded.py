"""Which X-Forwarded headers are believed, and from whom."""

from __future__ import annotations

from typing import Any

import pytest

from shiftboss.errors import InvalidRequest
from shiftboss.server.http.forwarded import Forwarding

pytestmark = pytest.mark.requirement("OWN-06")

PROXY = "10.0.0.1"
BEHIND = Forwarding([PROXY, "192.168.7.0/24", "fd00::/8"])


def client(peer: str, *chain: str, forwarding: Forwarding = BEHIND) -> str:
    headers = [(b"host", b"x"), *((b"x-forwarded-for", value.encode()) for value in chain)]
    return forwarding.client(peer, headers)


def scope(peer: str | None, **headers: str) -> dict[str, Any]:
    return {
        "scheme": "http",
        "client": None if peer is None else (peer, 4711),
        "server": ("127.0.0.1", 7432),
        "headers": [
            (name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()
        ],
    }


SPOOFED = {"x_forwarded_proto": "https", "x_forwarded_host": "evil.example"}


@pytest.mark.parametrize("peer", ["10.0.0.2", "127.0.0.1", "192.168.8.1", "::1", "fc00::1"])
def test_headers_of_anybody_else_are_ignored(peer: str) -> None:
    assert client(peer, "1.2.3.4") == peer
    assert BEHIND.address(scope(peer, host="own:7432", **SPOOFED)) == "http://own:7432"
    sent = scope(peer, x_forwarded_for="1.2.3.4")
    BEHIND.note_client(sent)
    assert sent["client"] == (peer, 4711)


def test_without_named_proxies_nobody_is_believed() -> None:
    assert client("127.0.0.1", "1.2.3.4", forwarding=Forwarding()) == "127.0.0.1"


@pytest.mark.parametrize(
    ("chain", "expected"),
    [
        (["1.2.3.4"], "1.2.3.4"),
        (["2001:db8::7"], "2001:db8::7"),
        (["1.2.3.4:5678"], "1.2.3.4"),
        (["[2001:db8::7]:5678"], "2001:db8::7"),
        (["::ffff:1.2.3.4"], "1.2.3.4"),
        # The client sent the first one itself; the proxy added the last.
        (["9.9.9.9, 1.2.3.4"], "1.2.3.4"),
        (["9.9.9.9", "1.2.3.4"], "1.2.3.4"),
        (["127.0.0.1, 1.2.3.4"], "1.2.3.4"),
        # Through two proxies of ours.
        (["1.2.3.4, 192.168.7.9"], "1.2.3.4"),
        (["9.9.9.9, 1.2.3.4, 192.168.7.9, fd00::5"], "1.2.3.4"),
        # Only proxies of ours: the farthest of them.
        (["192.168.7.8, 192.168.7.9"], "192.168.7.8"),
        # What cannot be an address ends the chain.
        ([], PROXY),
        ([""], PROXY),
        (["unknown"], PROXY),
        (["1.2.3.4, rubbish"], PROXY),
        (["1.2.3.4, rubbish, 192.168.7.9"], "192.168.7.9"),
        (["1.2.3.4,"], PROXY),
        (["\xff\xfe"], PROXY),
    ],
)
def test_the_client_is_the_last_address_that_is_not_a_proxy(
    chain: list[str], expected: str
) -> None:
    assert client(PROXY, *chain) == expected


def test_a_chain_without_end_costs_little() -> None:
    assert client(PROXY, ",".join(["192.168.7.9"] * 20_000)) == "192.168.7.9"


def test_a_proxy_says_by_which_address_it_was_reached() -> None:
    told = scope(PROXY, host="127.0.0.1:7432", x_forwarded_proto="https", x_forwarded_host="s.org")
    assert BEHIND.address(told) == "https://s.org"
    BEHIND.note_client(told)
    assert BEHIND.address(told) == "https://s.org"


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, "http://own"),
        ({"x_forwarded_proto": "ftp"}, "http://own"),
        ({"x_forwarded_proto": "https, http"}, "http://own"),
        ({"x_forwarded_host": "s.org:8443"}, "http://s.org:8443"),
        ({"x_forwarded_host": "[::1]:8443"}, "http://[::1]:8443"),
        ({"x_forwarded_host": "evil.example, s.org"}, "http://s.org"),
        ({"x_forwarded_host": "s.org/path"}, "http://own"),
        ({"x_forwarded_host": "user@s.org"}, "http://own"),
        ({"x_forwarded_host": 's.org"><script>'}, "http://own"),
        ({"forwarded": "for=1.2.3.4;host=evil.example;proto=https"}, "http://own"),
    ],
)
def test_only_a_plain_scheme_and_host_are_taken(headers: dict[str, str], expected: str) -> None:
    assert BEHIND.address(scope(PROXY, host="own", **headers)) == expected


def test_a_public_url_wins_over_what_anybody_says() -> None:
    public = Forwarding([PROXY], "https://shiftboss.example.org/")
    for peer in (PROXY, "10.0.0.2", None):
        told = scope(peer, host="own", **SPOOFED)
        assert public.address(told) == "https://shiftboss.example.org"


def test_a_request_without_a_host_gets_the_address_of_the_socket() -> None:
    assert Forwarding().address(scope(None)) == "http://127.0.0.1:7432"


@pytest.mark.parametrize("proxy", ["", "proxy.example", "10.0.0.1/8", "10.0.0.1:80", "*"])
def test_proxies_are_addresses_or_networks(proxy: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        Forwarding([proxy])
    assert raised.value.field == "behind_proxy"


@pytest.mark.parametrize(
    "url",
    ["", "s.org", "ftp://s.org", "https://", "https://u@s.org", "https://s.org?x", "http://["],
)
def test_a_public_url_is_an_address(url: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        Forwarding((), url)
    assert raised.value.field == "public_url"
