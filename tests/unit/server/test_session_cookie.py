"""The cookie of a session, and which requests the page itself makes."""

from __future__ import annotations

import pytest

from shiftboss.errors import Forbidden, ShiftbossError
from shiftboss.rules.access.tokens import StoredToken, token_digest
from shiftboss.server.http.guard import Guard
from shiftboss.server.web.session_cookie import cookie_name, session_secret, set_cookie

pytestmark = pytest.mark.requirement("OWN-04", "OWN-06")

SECRET = "s" * 43
JSON = (b"content-type", b"application/json")


def session() -> StoredToken:
    digest = token_digest(SECRET.encode())
    return StoredToken("ses-1", "operator", digest, "operator", None, None, None, 0, "operator")


def guard(**settings: object) -> Guard:
    it = Guard(None, "op", **settings)  # type: ignore[arg-type]
    it.tokens.replace_named([session()])
    return it


def actor(it: Guard, *headers: tuple[bytes, bytes], path: str = "/operator/x") -> str | None:
    """The id of the session that a POST counts for; None if it is refused or somebody else's."""
    try:
        return it.check("POST", path, [JSON, *headers]).token_id
    except ShiftbossError:
        return None


@pytest.mark.parametrize(
    ("host", "secure", "name"),
    [
        (b"127.0.0.1:7432", False, "shiftboss_session_7432"),
        (b"127.0.0.1", False, "shiftboss_session"),
        (b"[::1]:80", False, "shiftboss_session_80"),
        (b"[::1]", False, "shiftboss_session"),
        (b"boss.example.com", True, "__Host-shiftboss_session"),
        (b"boss.example.com:8443", True, "__Host-shiftboss_session_8443"),
    ],
)
def test_the_name_has_the_port(host: bytes, secure: bool, name: str) -> None:
    """Cookies know no ports: two servers of a machine would overwrite each other's."""
    assert cookie_name(host, is_secure=secure) == name


def test_under_tls_the_cookie_is_secure() -> None:
    cookie = set_cookie(b"boss.example.com", SECRET, 60, is_secure=True).decode()
    assert cookie.startswith(f"__Host-shiftboss_session={SECRET}; ")
    assert cookie.split("; ")[1:] == [
        "HttpOnly",
        "SameSite=Strict",
        "Path=/",
        "Max-Age=60",
        "Secure",
    ]


@pytest.mark.parametrize(
    "cookie",
    [
        b"",
        b"shiftboss_session_7432=",
        b"shiftboss_session_7432=short",
        b"shiftboss_session_7433=" + SECRET.encode(),
        b"xshiftboss_session_7432=" + SECRET.encode(),
        b'shiftboss_session_7432="' + SECRET.encode() + b'"',
        b"shiftboss_session_7432=" + b"x" * 5000,
        b"\xff=\xff; ;;=; shiftboss_session_7432",
    ],
)
def test_what_is_no_session(cookie: bytes) -> None:
    assert session_secret(cookie, b"127.0.0.1:7432", only_secure=False) is None


def test_among_other_cookies() -> None:
    cookie = b"a=b; shiftboss_session_1=" + SECRET.encode() + b";c=d"
    assert session_secret(cookie, b"localhost:1", only_secure=False) == SECRET.encode()


def test_under_tls_only_a_cookie_that_nobody_else_can_set_counts() -> None:
    """A page of a neighbouring host, or of plain HTTP, can set a cookie without the prefix."""
    it = guard(scheme="https", needs_token=True)
    host = (b"host", b"boss.example.com")
    plain = (b"cookie", f"shiftboss_session={SECRET}".encode())
    prefixed = (b"cookie", f"__Host-shiftboss_session={SECRET}".encode())
    assert actor(it, host, plain) is None
    assert actor(it, host, prefixed) == "ses-1"


@pytest.mark.parametrize(
    ("settings", "origin", "counts"),
    [
        ({}, b"http://boss:7432", True),
        ({}, b"https://boss:7432", False),
        ({"is_proxied": True}, b"https://boss:7432", True),
        ({"is_proxied": True}, b"https://other:7432", False),
        ({"public_url": "http://public.example/shiftboss"}, b"http://public.example", True),
        ({"public_url": "http://public.example"}, b"http://public.example.evil", False),
        ({}, b"null", False),
        ({}, b"", False),
    ],
)
def test_origins_of_the_page(settings: dict[str, object], origin: bytes, counts: bool) -> None:
    it = guard(needs_token=True, **settings)
    cookie = (b"cookie", f"shiftboss_session_7432={SECRET}".encode())
    found = actor(it, (b"host", b"boss:7432"), cookie, (b"origin", origin))
    assert (found == "ses-1") is counts


def test_a_name_that_was_pointed_to_this_machine_has_no_session() -> None:
    """A page whose host name resolves to 127.0.0.1 gets the cookies of that name, not these."""
    cookie = (b"cookie", f"shiftboss_session={SECRET}".encode())
    with pytest.raises(Forbidden):
        guard().check("POST", "/operator/x", [JSON, (b"host", b"evil.example"), cookie])


def test_two_cookie_headers_are_refused() -> None:
    cookie = (b"cookie", f"shiftboss_session={SECRET}".encode())
    assert actor(guard(), (b"host", b"127.0.0.1"), cookie, cookie) is None


@pytest.mark.parametrize("path", ["/mcp", "/messages", "/swarm/create", "/swarm/s/progress"])
def test_it_counts_for_the_page_alone(path: str) -> None:
    cookie = (b"cookie", f"shiftboss_session={SECRET}".encode())
    assert actor(guard(), (b"host", b"127.0.0.1"), cookie, path=path) is None
