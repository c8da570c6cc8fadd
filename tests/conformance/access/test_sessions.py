"""Logging in to the page: links that work once, and sessions that count for the page alone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from shiftboss.coordinator.deployment.sessions import (
    CODE_MS,
    CODES_MAX,
    CODES_OF_NAME_MAX,
    CODES_OF_OPERATORS,
    SESSION_MS,
    SESSIONS_MAX,
)
from shiftboss.system.logs import AUDIT_LOGGER
from tests.in_process import OPERATOR_TOKEN, InProcessReply, InProcessServer
from tests.waiting import eventually

pytestmark = pytest.mark.requirement("OWN-04", "OWN-06")

SECRET = "x" * 43


@pytest.fixture
def server(store_address: str) -> Iterator[InProcessServer]:
    with InProcessServer(store_address) as it:
        yield it


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[InProcessServer]:
    """A server that admits nobody without a token."""
    with InProcessServer(tmp_path / "shiftboss.db", needs_token=True) as it:
        yield it


def code_of(server: InProcessServer, token: str | None = None) -> str:
    reply = server.operator("create_login", token)
    assert reply.status == 200, reply
    assert reply.answer["url"].endswith(f"/login#{reply.answer['code']}")
    return str(reply.answer["code"])


def redeem(server: InProcessServer, code: str) -> InProcessReply:
    return server.post("/login", {"code": code})


def log_in(server: InProcessServer, token: str | None = None) -> str:
    """The cookie of a new session."""
    reply = redeem(server, code_of(server, token))
    assert reply.status == 200, reply
    return cookie_of(reply)


def cookie_of(reply: InProcessReply) -> str:
    return reply.headers["set-cookie"].partition(";")[0]


def whoami(server: InProcessServer, cookie: str) -> tuple[bool, str | None, str | None]:
    view = server.run(server.send("GET", "/session", headers={"cookie": cookie})).answer
    return view["logged_in"], view["name"], view["role"]


def as_page(
    server: InProcessServer, path: str, cookie: str, /, body: object = None, **headers: str
) -> InProcessReply:
    own = {"origin": "http://127.0.0.1", "sec_fetch_site": "same-origin"} | headers
    return server.post(path, {} if body is None else body, cookie=cookie, **own)


# -- links


def test_a_link_becomes_a_session_once(server: InProcessServer) -> None:
    code = code_of(server)
    first = redeem(server, code)
    assert first.answer == {
        "name": "operator",
        "role": "operator",
        "expires_at": server.clock() + SESSION_MS,
    }
    assert code.encode() not in first.body
    second = redeem(server, code)
    assert (second.status, second.code) == (401, "login_code_invalid")
    assert "set-cookie" not in second.headers
    assert "shiftboss open" in second.answer["hint"]
    assert whoami(server, cookie_of(first)) == (True, "operator", "operator")


@pytest.mark.parametrize("code", ["", "x", SECRET, "../../etc/passwd", "☃" * 40])
def test_a_code_that_nobody_made_is_refused(server: InProcessServer, code: str) -> None:
    reply = redeem(server, code)
    assert reply.code in ("login_code_invalid", "invalid_request")
    assert "set-cookie" not in reply.headers


def test_a_link_expires(server: InProcessServer) -> None:
    code = code_of(server)
    server.clock.now_ms += CODE_MS
    assert redeem(server, code).code == "login_code_invalid"


def test_links_that_nobody_uses_do_not_pile_up(guarded: InProcessServer) -> None:
    codes = []
    for _ in range(CODES_OF_NAME_MAX + 1):
        codes.append(code_of(guarded))
        guarded.clock.now_ms += 1
    assert redeem(guarded, codes[0]).code == "login_code_invalid"
    for code in codes[1:]:
        assert redeem(guarded, code).status == 200


def test_others_cannot_keep_the_operator_from_logging_in(server: InProcessServer) -> None:
    for number in range((CODES_MAX - CODES_OF_OPERATORS) // CODES_OF_NAME_MAX):
        token = server.create_token(f"reader-{number}", "read-only")
        for _ in range(CODES_OF_NAME_MAX):
            code_of(server, token)
    token = server.create_token("one-more", "read-only")
    assert server.operator("create_login", token).status == 409
    code_of(server)
    server.clock.now_ms += CODE_MS
    assert server.operator("create_login", token).status == 200


def test_a_link_is_nothing_without_the_token_that_made_it(server: InProcessServer) -> None:
    alice = server.create_token("alice", "orchestrator")
    code = code_of(server, alice)
    server.operator("revoke_token", token="alice")
    assert redeem(server, code).code == "login_code_invalid"


@pytest.mark.parametrize("token", [None, "shared"])
def test_who_has_no_token_of_their_own_gets_no_link(tmp_path: Path, token: str | None) -> None:
    with InProcessServer(tmp_path / "shiftboss.db", token=token) as server:
        assert server.post("/operator/create_login", {}, token).code == "forbidden"


# -- who a session is


@pytest.mark.parametrize("role", ["worker", "read-only", "orchestrator"])
def test_a_session_has_the_role_and_the_limits_of_its_token(
    server: InProcessServer, role: str
) -> None:
    server.post("/swarm/create", {"swarm_id": "own", "feature": "f"})
    server.post("/swarm/create", {"swarm_id": "other", "feature": "f"})
    cookie = log_in(server, server.create_token("bob", role, swarm_id="own"))
    assert whoami(server, cookie) == (True, "bob", role)
    assert as_page(server, "/operator/list_tokens", cookie).code == "forbidden"
    assert as_page(server, "/bus/list_cards", cookie, {"swarm_id": "own"}).status == 200
    assert as_page(server, "/bus/list_cards", cookie, {"swarm_id": "other"}).code == "forbidden"
    listed = as_page(server, "/bus/list_inbox", cookie)
    assert listed.answer == {"items": [], "total": 0}


def test_what_a_session_does_has_its_name(server: InProcessServer) -> None:
    cookie = log_in(server, server.create_token("alice", "orchestrator"))
    as_page(server, "/bus/add_task", cookie, {"bead_id": "T1", "title": "T1"})
    assert "actor: alice" in server.get("/swarm/default/events?follow=false").body.decode()


def test_a_session_is_listed_and_is_no_token_of_its_name(server: InProcessServer) -> None:
    log_in(server)
    (listed,) = server.operator("list_tokens").answer["tokens"]
    assert (listed["name"], listed["is_session"]) == ("operator", True)
    assert listed["token_id"].startswith("ses-")
    alice = server.create_token("alice", "operator")
    log_in(server, alice)
    server.operator("rotate_token", name="alice", overlap_seconds=0)
    names = [row["name"] for row in server.operator("list_tokens").answer["tokens"]]
    assert sorted(names) == ["alice", "alice", "operator"]


def test_a_session_ends_with_the_last_token_of_its_name(server: InProcessServer) -> None:
    cookie = log_in(server, server.create_token("alice", "operator"))
    server.operator("revoke_token", token="alice")
    assert whoami(server, cookie)[0] is False


def test_a_session_lasts_no_longer_than_its_token(server: InProcessServer) -> None:
    cookie = log_in(server, server.create_token("alice", "operator", expires_in_seconds=60))
    server.clock.now_ms += 60_000
    assert whoami(server, cookie)[0] is False


def test_a_session_does_not_prolong_itself(server: InProcessServer) -> None:
    cookie = log_in(server)
    server.clock.now_ms += SESSION_MS - 1000
    again = as_page(server, "/operator/create_login", cookie).answer["code"]
    second = cookie_of(redeem(server, again))
    assert whoami(server, second)[0] is True
    server.clock.now_ms += 1000
    assert whoami(server, second)[0] is False


def test_the_end_of_a_session_ends_no_agent(server: InProcessServer) -> None:
    """The tokens of agents are made by a run with the operator's token, which has the same name."""
    server.bus("add_task", bead_id="T1", title="T1")
    task_token = server.bus(
        "create_task_token", OPERATOR_TOKEN, bead_id="T1", expires_in_seconds=600
    ).answer["token"]
    log_in(server)
    server.operator("revoke_token", token="operator")
    assert server.bus("show_task", task_token, bead_id="T1").status == 200


def test_the_oldest_session_of_a_name_ends_first(guarded: InProcessServer) -> None:
    first = log_in(guarded)
    for _ in range(SESSIONS_MAX):
        guarded.clock.now_ms += 1
        last = log_in(guarded)
    assert whoami(guarded, first)[0] is False
    assert whoami(guarded, last)[0] is True


# -- the cookie


def test_scripts_and_other_sites_get_no_cookie(server: InProcessServer) -> None:
    cookie = redeem(server, code_of(server)).headers["set-cookie"].split("; ")
    assert cookie[0].startswith("shiftboss_session=")
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(cookie)
    assert "Secure" not in cookie, "a browser would not send it to http://127.0.0.1"
    assert not any(part.startswith("Domain") for part in cookie)


def test_a_token_goes_before_a_cookie(server: InProcessServer) -> None:
    cookie = log_in(server)
    reader = server.create_token("reader", "read-only")
    reply = server.post("/operator/list_tokens", {}, reader, cookie=cookie)
    assert reply.code == "forbidden"


def test_a_cookie_is_no_token_and_a_token_is_no_cookie(guarded: InProcessServer) -> None:
    name, _, secret = log_in(guarded).partition("=")
    assert guarded.bus("get_status", secret).code == "unauthorized"
    alice = guarded.create_token("alice", "operator")
    for value in (alice, OPERATOR_TOKEN):
        assert as_page(guarded, "/operator/list_tokens", f"{name}={value}").status == 401


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "https://127.0.0.1"},
        {"origin": "http://127.0.0.1:7433"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        {"content_type": "text/plain"},
        {"content_type": "application/x-www-form-urlencoded"},
    ],
)
@pytest.mark.parametrize("needs_token", [False, True])
def test_other_sites_cannot_use_a_session(
    tmp_path: Path, headers: dict[str, str], needs_token: bool
) -> None:
    with InProcessServer(tmp_path / "shiftboss.db", needs_token=needs_token) as server:
        cookie = log_in(server)
        assert as_page(server, "/operator/list_tokens", cookie).status == 200
        reply = as_page(server, "/operator/list_tokens", cookie, **headers)
        assert reply.status in (400, 403, 415), reply
        assert b"tokens" not in reply.body


def test_a_form_without_a_body_is_no_request_of_the_page(server: InProcessServer) -> None:
    cookie = log_in(server)
    reply = server.run(server.send("POST", "/operator/list_tokens", headers={"cookie": cookie}))
    assert reply.code == "unsupported_media_type"


@pytest.mark.parametrize("path", ["/mcp", "/messages", "/swarm/create", "/swarm/default/register"])
def test_what_workers_and_agents_send_needs_a_token(guarded: InProcessServer, path: str) -> None:
    assert as_page(guarded, path, log_in(guarded)).code == "unauthorized"


@pytest.mark.parametrize("is_logged_in", [False, True])
@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_another_site_may_link_to_the_page_but_not_use_it(
    server: InProcessServer, site: str, is_logged_in: bool
) -> None:
    link = {"sec_fetch_site": site, "sec_fetch_mode": "navigate"}
    if is_logged_in:
        link["cookie"] = log_in(server)
    opened = link | {"sec_fetch_dest": "document"}
    framed = link | {"sec_fetch_dest": "iframe"}
    for path, headers, status in (
        ("/", opened, 200),
        ("/login", opened, 200),
        ("/", framed, 403),
        ("/swarms", opened, 403),
        ("/session", opened, 403),
        ("/static/js/app.js", opened, 403),
    ):
        reply = server.run(server.send("GET", path, headers=headers))
        assert reply.status == status, (path, headers)


# -- the end


def test_log_out(server: InProcessServer) -> None:
    cookie = log_in(server)
    reply = as_page(server, "/logout", cookie)
    assert reply.answer == {"ended": True}
    assert "Max-Age=0" in reply.headers["set-cookie"]
    assert whoami(server, cookie)[0] is False
    assert as_page(server, "/operator/list_tokens", cookie).code == "forbidden"
    assert as_page(server, "/logout", cookie).answer == {"ended": False}


def test_another_site_cannot_log_out(server: InProcessServer) -> None:
    cookie = log_in(server)
    assert as_page(server, "/logout", cookie, origin="http://evil.example").status == 403
    assert whoami(server, cookie)[0] is True


@pytest.mark.parametrize("needs_token", [False, True])
def test_an_ended_session_ends_its_streams(tmp_path: Path, needs_token: bool) -> None:
    """Also where everybody may read: who was logged in does not go on as somebody who is not."""
    with InProcessServer(tmp_path / "shiftboss.db", needs_token=needs_token) as server:
        cookie = log_in(server)
        server.run(_revoked_while_streaming(server, cookie))


async def _revoked_while_streaming(server: InProcessServer, cookie: str) -> None:
    parts: list[bytes] = []
    headers = {"cookie": cookie, "sec_fetch_site": "same-origin"}
    stream = asyncio.create_task(
        server.send("GET", "/changes", headers=headers, on_body=parts.append)
    )
    await eventually(lambda: b"hello" in b"".join(parts), "the stream begins")
    await server.send("POST", "/operator/revoke_token", {"token": "operator"}, OPERATOR_TOKEN)
    reply = await asyncio.wait_for(stream, 30)
    assert reply.status == 200


def test_a_session_outlives_a_restart(tmp_path: Path) -> None:
    with InProcessServer(tmp_path / "shiftboss.db") as server:
        cookie = log_in(server)
    with InProcessServer(tmp_path / "shiftboss.db") as server:
        assert whoami(server, cookie) == (True, "operator", "operator")


def test_another_server_on_the_database_knows_links_and_sessions(postgres_url: str) -> None:
    with InProcessServer(postgres_url) as one, InProcessServer(postgres_url) as other:
        code = code_of(one)
        cookie = cookie_of(redeem(other, code))
        assert redeem(one, code).code == "login_code_invalid"
        one.run(eventually(lambda: knows(one, cookie), "the other server knows it"))
        assert whoami(one, cookie)[0] is True
        as_page(one, "/logout", cookie)
        other.run(eventually(lambda: not knows(other, cookie), "it ends everywhere"))


def knows(server: InProcessServer, cookie: str) -> bool:
    return server.app.guard.tokens.find_session(_secret(cookie)) is not None


def _secret(cookie: str) -> bytes:
    return cookie.partition("=")[2].encode()


def test_no_secret_is_stored_or_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", AUDIT_LOGGER)
    database = tmp_path / "shiftboss.db"
    with InProcessServer(database) as server:
        code = code_of(server)
        secret = _secret(cookie_of(redeem(server, code))).decode()
        redeem(server, code)
    stored = b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.is_file())
    assert code.encode() not in stored
    assert secret.encode() not in stored
    logged = [getattr(record, "facts", {}) for record in caplog.records]
    assert "/operator/create_login" in {line.get("operation") for line in logged}
    assert code not in str(logged)
    assert secret not in str(logged)


@pytest.mark.parametrize(
    "path",
    [
        "/swarms",
        "/swarm/s/status",
        "/swarm/s/events?follow=false",
        "/session",
        "/metrics",
        "/health",
        "/ready",
        "/openapi.json",
        "/swarm/nobody/status",
        "/nowhere<script>",
    ],
)
def test_no_browser_or_proxy_keeps_what_was_read(server: InProcessServer, path: str) -> None:
    server.post("/swarm/create", {"swarm_id": "s"})
    headers = server.get(path).headers
    assert (headers["cache-control"], headers["x-content-type-options"]) == ("no-store", "nosniff")
