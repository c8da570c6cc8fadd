"""Access control, request by request."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from shiftboss.errors import (
    Forbidden,
    MalformedRequest,
    ShiftbossError,
    Unauthorized,
    UnsupportedMediaType,
)
from shiftboss.rules.access.tokens import StoredToken, token_digest
from shiftboss.server.http.guard import HOSTS_MAX, Guard

pytestmark = pytest.mark.requirement("SW-12")

Pairs = list[tuple[bytes, bytes]]

HOST = (b"host", b"127.0.0.1:7432")
JSON = (b"content-type", b"application/json")
BODY = (b"content-length", b"2")


def refusal(
    *headers: tuple[bytes, bytes],
    method: str = "POST",
    path: str = "/bus/add_task",
    guard: Guard | None = None,
) -> type[ShiftbossError] | None:
    try:
        (guard or Guard(None)).check(method, path, list(headers))
    except ShiftbossError as error:
        return type(error)
    return None


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.0.0.1:7432",
        "127.255.255.254",
        "localhost",
        "LOCALHOST:80",
        "[::1]",
        "[::1]:7432",
        "[0:0:0:0:0:0:0:1]:1",
    ],
)
def test_loopback_names_are_hosts(host: str) -> None:
    assert refusal((b"host", host.encode())) is None


@pytest.mark.parametrize(
    "host",
    [
        b"",
        b" ",
        b"evil.example",
        b"evil@127.0.0.1",
        b"user:password@localhost:7432",
        b"127.0.0.1:7432@evil.example",
        b"[::1].evil.example",
        b"[::1]evil.example",
        b"[::1]:7432.evil.example",
        b"[::1",
        b"::1",
        b"[::1%25eth0]",
        b"[127.0.0.1]",
        b"[localhost]",
        b"127.0.0.1.evil.example",
        b"localhost.evil.example",
        b"localhost.",
        b"127.0.0.1.",
        b"127.0.0.1:",
        b"127.0.0.1:x",
        b"127.0.0.1:99999",
        b"127.0.0.1:-1",
        b"127.0.0.1:+80",
        b"127.0.0.1:\xb2",
        b"127.0.0.1:7432:7432",
        b"127.0.0.1,evil.example",
        b"127.0.0.1 evil.example",
        b"127.0.0.1/evil.example",
        b"127.0.0.1\\evil.example",
        b"127.0.0.1?evil.example",
        b"127.0.0.1#evil.example",
        b"127.0.0.1%00.evil.example",
        b"127.0.0.1\x00",
        b"127.0.0.1\t",
        b"http://127.0.0.1",
        b"127.1",
        b"127.0.1",
        b"0177.0.0.1",
        b"0x7f.0.0.1",
        b"2130706433",
        b"0.0.0.0",
        b"[::]",
        b"127.0.0.\xb9",
        "１２７.0.0.1".encode(),
        "ⅼocalhost".encode(),
        "lоcalhost".encode(),
        "localhost\u200b".encode(),
    ],
)
def test_everything_else_is_no_host(host: bytes) -> None:
    assert refusal((b"host", host)) is Forbidden


def test_a_request_without_a_host_is_refused() -> None:
    assert refusal() is Forbidden


@pytest.mark.parametrize("host", [b"127.0.0.1:7432", b"localhost:7432", b"[::1]:7432"])
def test_the_servers_own_pages_may_use_it(host: bytes) -> None:
    assert refusal((b"host", host), (b"origin", b"http://" + host)) is None


@pytest.mark.parametrize(
    "origin",
    [
        b"",
        b"null",
        b"http://localhost:3000",
        b"http://localhost:7432",
        b"http://127.0.0.1",
        b"http://127.0.0.1:74321",
        b"http://127.0.0.2:7432",
        b"https://127.0.0.1:7432",
        b"http://127.0.0.1:7432/",
        b"http://127.0.0.1:7432.evil.example",
        b"http://evil.example",
        b"http://evil.example http://127.0.0.1:7432",
        b"http://evil@127.0.0.1:7432",
        b"file://",
        b"chrome-extension://abc",
        b"127.0.0.1:7432",
        b"//127.0.0.1:7432",
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_pages_of_other_origins_are_refused(origin: bytes, method: str) -> None:
    assert refusal(HOST, (b"origin", origin), method=method) is Forbidden


@pytest.mark.parametrize("name", [b"host", b"origin", b"authorization", b"content-type"])
@pytest.mark.parametrize("token", [None, "t"])
def test_a_header_that_counts_must_not_come_twice(name: bytes, token: str | None) -> None:
    """Programs on the way may use the other one."""
    valid = {
        b"host": HOST[1],
        b"origin": b"http://127.0.0.1:7432",
        b"authorization": b"Bearer t",
        b"content-type": JSON[1],
    }
    for second in (valid[name], b"evil.example"):
        twice: Pairs = [*valid.items(), (name, second)]
        assert refusal(*twice, guard=Guard(token)) is MalformedRequest
    assert refusal(*valid.items(), guard=Guard(token)) is None


@pytest.mark.parametrize(
    "media_type",
    [
        None,
        b"",
        b"text/plain",
        b"text/plain; application/json",
        b"application/x-www-form-urlencoded",
        b"multipart/form-data; boundary=x",
        b"application/json5",
        b"application/jsonp",
        b"application/vnd.api+json",
        b"text/json",
        b"text/plain, application/json",
        b"application/json, text/plain",
        b'"application/json"',
    ],
)
@pytest.mark.parametrize("length", [BODY, (b"transfer-encoding", b"chunked")])
def test_a_body_must_be_declared_as_json(
    media_type: bytes | None, length: tuple[bytes, bytes]
) -> None:
    headers: Pairs = [HOST, length]
    if media_type is not None:
        headers.append((b"content-type", media_type))
    for path in ("/bus/add_task", "/swarm/create", "/messages", "/mcp", "/nothing"):
        assert refusal(*headers, path=path) is UnsupportedMediaType


@pytest.mark.parametrize(
    "media_type",
    [
        b"application/json",
        b"application/json; charset=utf-8",
        b"application/json;charset=UTF-8",
        b"Application/JSON",
        b"application/json ;x",
    ],
)
def test_json_is_accepted_however_it_is_written(media_type: bytes) -> None:
    assert refusal(HOST, BODY, (b"content-type", media_type)) is None


@pytest.mark.parametrize("length", [b"0", b"00", None])
def test_a_request_without_a_body_needs_no_type(length: bytes | None) -> None:
    """The client of the worker integration contract creates swarms like this."""
    headers: Pairs = [HOST] if length is None else [HOST, (b"content-length", length)]
    assert refusal(*headers, path="/swarm/create") is None


def test_a_forge_may_send_what_it_likes() -> None:
    """Its requests are signed, and need neither a host nor a type."""
    assert refusal((b"host", b"ci.example"), BODY, path="/ci/webhook/api") is None


@pytest.mark.parametrize(
    "credentials",
    [
        b"",
        b"Bearer",
        b"Bearer ",
        b"bearer t0ken",
        b"Basic t0ken",
        b"t0ken",
        b"Bearer t0ke",
        b"Bearer t0ken ",
        b"Bearer t0ken\x00",
        b"Bearer t0ken, Bearer x",
        b"Bearer t\xf6ken",
        "Bearer t０ken".encode(),
        b"Bearer " + b"t" * 50_000,
    ],
)
def test_only_the_token_itself_is_the_token(credentials: bytes) -> None:
    guard = Guard("t0ken")
    assert refusal(HOST, (b"authorization", credentials), guard=guard) is Unauthorized
    assert refusal(HOST, (b"authorization", b"Bearer t0ken"), guard=guard) is None


@pytest.mark.parametrize("path", ["/operator/waive", "/operator/", "/operator/nothing"])
@pytest.mark.parametrize("token", [None, b"", b"secre", b"Secret", b"secret\x00", b"s\xe9cret"])
def test_only_the_operator_gets_to_the_operators_paths(path: str, token: bytes | None) -> None:
    guard = Guard(None, "secret")
    headers: Pairs = [HOST] if token is None else [HOST, (b"shiftboss-operator", token)]
    assert refusal(*headers, path=path, guard=guard) is Forbidden
    assert refusal(HOST, (b"shiftboss-operator", b"secret"), path=path, guard=guard) is None
    assert refusal(HOST, (b"shiftboss-operator", b""), path=path, guard=Guard(None)) is Forbidden


def test_many_host_names_do_not_fill_the_memory() -> None:
    guard = Guard(None)
    for number in range(3 * HOSTS_MAX):
        assert refusal((b"host", b"h%d" % number), guard=guard) is Forbidden
    assert len(guard._hosts) == HOSTS_MAX
    assert refusal(HOST, guard=guard) is None


@pytest.mark.parametrize("path", ["/swarms", "/ci/webhook/app"])
@pytest.mark.parametrize("site", [b"cross-site", b"same-site", b"Cross-Site", b"", b"new-word"])
def test_what_a_web_page_embeds_is_refused(path: str, site: bytes) -> None:
    """Such a request has no Origin."""
    assert refusal(HOST, (b"sec-fetch-site", site), method="GET", path=path) is Forbidden


@pytest.mark.parametrize("site", [b"none", b"same-origin"])
def test_a_person_may_open_an_address_in_a_browser(site: bytes) -> None:
    assert refusal(HOST, (b"sec-fetch-site", site), method="GET", path="/swarms") is None


@pytest.mark.requirement("OWN-06")
def test_over_tls_the_own_origin_is_https() -> None:
    secured = Guard(None, scheme="https")
    assert refusal(HOST, JSON, (b"origin", b"https://127.0.0.1:7432"), guard=secured) is None
    assert refusal(HOST, JSON, (b"origin", b"http://127.0.0.1:7432"), guard=secured) is Forbidden
    assert refusal(HOST, JSON, (b"origin", b"https://evil.example"), guard=secured) is Forbidden
    assert refusal((b"host", b"evil.example"), JSON, guard=secured) is Forbidden


def named(digest_of: str, expires_at_ms: int | None = None) -> StoredToken:
    digest = token_digest(digest_of.encode())
    return StoredToken(
        "id-1", "ci", digest, "worker", None, None, None, 0, "local", expires_at_ms=expires_at_ms
    )


def watched(guard: Guard) -> Callable[[], bool]:
    headers = [HOST, (b"authorization", b"Bearer swb_mine")]
    actor = guard.check("GET", "/swarm/s/events", headers)
    assert actor.token_id == "id-1"
    return guard.watch("GET", "/swarm/s/events", headers, actor)


def test_a_stream_is_admitted_until_its_token_is_revoked() -> None:
    guard = Guard("shared", needs_token=True)
    guard.tokens.replace_named([named("swb_mine")])
    is_admitted = watched(guard)
    assert is_admitted()
    guard.tokens.replace_given(["rotated"], [])
    assert is_admitted()
    guard.tokens.replace_named([])
    assert not is_admitted()
    assert not is_admitted()


def test_a_stream_is_admitted_until_its_token_expires_by_what_is_known_of_it_last() -> None:
    now_ms = [0]
    guard = Guard(None, needs_token=True, clock=lambda: now_ms[0])
    guard.tokens.replace_named([named("swb_mine", expires_at_ms=100)])
    is_admitted = watched(guard)
    assert is_admitted()
    guard.tokens.replace_named([named("swb_mine", expires_at_ms=50)])
    assert is_admitted()
    now_ms[0] = 50
    assert not is_admitted()


def test_a_stream_of_a_revoked_token_does_not_go_on_as_one_without_a_token() -> None:
    guard = Guard(None)
    guard.tokens.replace_named([named("another-word")])
    headers = [HOST, (b"authorization", b"Bearer another-word")]
    is_admitted = guard.watch("GET", "/changes", headers, guard.check("GET", "/changes", headers))
    assert is_admitted()
    guard.tokens.replace_named([])
    assert refusal(*headers, method="GET", path="/changes", guard=guard) is None
    assert not is_admitted()


def test_a_stream_whose_token_has_expired_stays_refused() -> None:
    now_ms = [0]
    guard = Guard(None, clock=lambda: now_ms[0])
    guard.tokens.replace_named([named("another-word", expires_at_ms=50)])
    headers = [HOST, (b"authorization", b"Bearer another-word")]
    is_admitted = guard.watch("GET", "/changes", headers, guard.check("GET", "/changes", headers))
    assert is_admitted()
    now_ms[0] = 50
    assert [is_admitted(), is_admitted()] == [False, False]
