"""Access control.

On a loopback address no token is needed, but a web page must not reach the server through the
user's browser: the Host must be a loopback name, and the Origin, if there is one, the server
itself. On any other address every request needs a token: one of its own, the one that all share, or
the operator's. A person who has logged in to the page has a cookie instead, which counts for
requests of the page alone. The guard says who the caller is; what it may do is decided for each
operation (`server/operations/authorization.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from shiftboss.coordinator.clock import Clock, ServerClock
from shiftboss.defaults import TOKEN_PREFIX
from shiftboss.errors import Forbidden, MalformedRequest, Unauthorized, UnsupportedMediaType
from shiftboss.rules.access.actors import FORGE, LOCAL, SHARED, Actor
from shiftboss.rules.access.roles import Role
from shiftboss.server.http.known_tokens import KnownTokens
from shiftboss.server.http.requests import Headers
from shiftboss.server.web.own_pages import (
    OwnPages,
    check_not_from_page,
    may_have_session,
    opens_page,
)
from shiftboss.system.loopback import is_loopback

OPERATOR_PREFIX = "/operator/"
WEBHOOK_PREFIX = "/ci/webhook/"
OPERATOR_HEADER = b"shiftboss-operator"
# What a load balancer asks, without a token; the second tells strangers less. And the page itself,
# which has no data, and how it logs in.
PAGE_PATHS = frozenset({"/", "/login"})
OPEN_PATHS = frozenset({"/health", "/ready", "/session", "/logout"}) | PAGE_PATHS
STATIC_PREFIX = "/static/"
# How many host names are remembered with their check.
HOSTS_MAX = 100

_SCHEME: Final = b"Bearer "
_NO_TOKEN: Final = b""

_JSON: Final = b"application/json"
# Programs disagree on which of two counts.
_SINGLE: Final = {
    b"host": "Host",
    b"origin": "Origin",
    b"authorization": "Authorization",
    b"content-type": "Content-Type",
    b"content-length": "Content-Length",
    b"transfer-encoding": "Transfer-Encoding",
    b"sec-fetch-site": "Sec-Fetch-Site",
    b"sec-fetch-mode": "Sec-Fetch-Mode",
    b"sec-fetch-dest": "Sec-Fetch-Dest",
    b"cookie": "Cookie",
    OPERATOR_HEADER: "Shiftboss-Operator",
}
_HOST: Final = re.compile(r"(?:\[([0-9a-f:.]+)\]|([a-z0-9.-]+))(?::([0-9]{1,5}))?", re.ASCII)
_PORT_MAX: Final = 65_535


class Guard:
    """The operator's operations need a token on every address: a worker on the same machine is not
    the operator."""

    def __init__(
        self,
        token: str | None,
        operator_token: str | None = None,
        *,
        scheme: str = "http",
        needs_token: bool = False,
        clock: Clock | None = None,
        public_url: str | None = None,
        is_proxied: bool = False,
    ) -> None:
        """`needs_token`: a caller must have a token even if there is none that all share.
        `public_url` is where browsers reach the server, if it is not its own address.
        `is_proxied`: a proxy in front of it may speak TLS."""
        self._scheme = scheme
        self._own_pages = OwnPages(scheme, public_url, is_proxied=is_proxied)
        self._own_origin = f"{scheme}://".encode()
        self.tokens = KnownTokens(
            clock or ServerClock(),
            [] if token is None else [token],
            [] if operator_token is None else [operator_token],
        )
        self._needs_token = needs_token or token is not None
        self._hosts: dict[bytes, bool] = {}

    def check(self, method: str, path: str, headers: Headers) -> Actor:
        """Who the caller is. Raises Unauthorized or Forbidden."""
        # A forge has no token, and may use any host name: it signs its requests. Without a valid
        # signature every request gets the same refusal. With one, it only makes a CI check due
        # that would have come anyway.
        if path.startswith(WEBHOOK_PREFIX):
            check_not_from_page(dict(headers).get(b"sec-fetch-site"))
            return FORGE
        given = _single_headers(headers)
        session = self._session(method, path, given) if b"cookie" in given else None
        if session is not None:
            return session
        if path.startswith(OPERATOR_PREFIX):
            actor = self._check_operator(path, given)
        else:
            actor = self._check_caller(path, given)
        if method == "POST":
            _check_media_type(given)
        return actor

    def _session(self, method: str, path: str, given: dict[bytes, bytes]) -> Actor | None:
        """Who is logged in, if this is a request that the page makes. A token goes before a
        cookie. Raises Forbidden if it is the page of somebody else that makes the request."""
        if path in PAGE_PATHS and opens_page(given):
            return None  # the page is the same for everybody, and any site may link to it
        if not may_have_session(method, path) or b"authorization" in given:
            return None
        secret = None if OPERATOR_HEADER in given else self._own_pages.secret(given)
        actor = None if secret is None else self.tokens.find_session(secret)
        if actor is None:
            return None  # such as a session that has ended: somebody who is not logged in
        if not self._needs_token:
            self._check_host(given.get(b"host", b""))
        self._own_pages.check(method, given)
        return actor

    def watch(
        self, method: str, path: str, headers: Headers, admitted: Actor
    ) -> Callable[[], bool]:
        """Whether a request that `check` admitted may go on. Its token may have been revoked, or be
        no longer in its file. A user who was logged in must not continue as one who is not.

        A stream asks before every write, so its headers are checked again only when the tokens have
        changed, or its own has expired."""
        tokens, actor, version = self.tokens, admitted, -1

        def is_admitted() -> bool:
            nonlocal actor, version
            if version == tokens.version and not tokens.is_expired(actor):
                return True
            try:
                caller = self.check(method, path, headers)
            except (Forbidden, Unauthorized):
                return False
            if caller.token_id != admitted.token_id:
                return False
            actor, version = caller, tokens.version
            return True

        return is_admitted

    def knows(self, headers: Headers) -> bool:
        """Whether the caller may read what this server has, as opposed to a stranger."""
        try:
            self.check("GET", "/swarms", headers)
        except (Forbidden, Unauthorized):
            return False
        return True

    def _check_operator(self, path: str, given: dict[bytes, bytes]) -> Actor:
        """The token of the operator, or of a verifier, comes in a header of its own or as that of
        the caller."""
        operator = self.tokens.find(given.get(OPERATOR_HEADER, _NO_TOKEN))
        if operator is not None and operator.role is not Role.ANYBODY:
            if not self._needs_token:
                self._check_not_foreign(given)
            return operator
        actor = self._check_caller(path, given)
        if actor.role is Role.ANYBODY:
            raise Forbidden(
                "only the operator may do this",
                field="Shiftboss-Operator",
                hint="log in to the page with `shiftboss open`, or send the operator's token. "
                "Commands read it from SHIFTBOSS_OPERATOR_TOKEN, "
                "or from operator-token in the .shiftboss folder of the server: run them in its "
                "folder, or set the variable as it was set for the server or the run",
            )
        return actor

    def _check_caller(self, path: str, given: dict[bytes, bytes]) -> Actor:
        if not self._needs_token:
            if path in PAGE_PATHS and opens_page(given):
                self._check_host(given.get(b"host", b""))
            else:
                self._check_not_foreign(given)
        token = _bearer(given.get(b"authorization", b""))
        # Looked up even if there is none, so that the time does not tell the two apart.
        actor = self.tokens.find(token or _NO_TOKEN)
        if actor is not None and token is not None:
            return actor
        if path in OPEN_PATHS or path.startswith(STATIC_PREFIX):
            return SHARED if self._needs_token else LOCAL
        if not self._needs_token and not _is_one_of_ours(token):
            # A token that was meant for another server does no harm.
            return LOCAL
        raise _unauthorized(is_missing=b"authorization" not in given)

    def _check_not_foreign(self, given: dict[bytes, bytes]) -> None:
        host = given.get(b"host", b"")
        self._check_host(host)
        origin = given.get(b"origin")
        if origin is not None and origin.lower() != self._own_origin + host.lower():
            raise Forbidden(
                f"Origin {str(origin, 'latin-1')!r} is not this server",
                field="Origin",
                hint="web pages of other origins cannot use this server; serve with a token",
            )
        check_not_from_page(given.get(b"sec-fetch-site"))

    def _check_host(self, host: bytes) -> None:
        is_allowed = self._hosts.get(host)
        if is_allowed is None:
            is_allowed = names_loopback(str(host, "latin-1").lower())
            if len(self._hosts) < HOSTS_MAX:
                self._hosts[host] = is_allowed
        if not is_allowed:
            raise Forbidden(
                f"Host {str(host, 'latin-1')!r} is not a loopback name",
                field="Host",
                hint=f"use {self._scheme}://127.0.0.1:PORT, or serve with a token",
            )


def _bearer(authorization: bytes) -> bytes | None:
    return authorization[len(_SCHEME) :] if authorization.startswith(_SCHEME) else None


def _is_one_of_ours(token: bytes | None) -> bool:
    """An agent whose token was revoked must not become somebody who needs none."""
    return token is not None and token.startswith(TOKEN_PREFIX.encode())


def _unauthorized(*, is_missing: bool) -> Unauthorized:
    if is_missing:
        return Unauthorized(
            "this server needs a token",
            field="Authorization",
            hint="send `Authorization: Bearer TOKEN`; shiftboss clients read SHIFTBOSS_TOKEN. "
            "`shiftboss token create` makes one (operator)",
            facts={"reason": "missing"},
        )
    return Unauthorized(
        "the token is not valid: this server does not know it, or it has expired or was revoked",
        field="Authorization",
        hint="`shiftboss token list` shows the tokens, `shiftboss token rotate` makes a new one "
        "(operator); then replace the one in SHIFTBOSS_TOKEN or in the token file",
        facts={"reason": "invalid"},
    )


def names_loopback(host: str) -> bool:
    """`host` is in lower case. Only a plain name or address, with or without a port: what else a
    URL may have there (a user, a zone) is read differently by different programs."""
    parts = _HOST.fullmatch(host)
    if parts is None or int(parts[3] or 0) > _PORT_MAX:
        return False
    return is_loopback(parts[1] or parts[2]) and (parts[1] is None or ":" in parts[1])


def _single_headers(headers: Headers) -> dict[bytes, bytes]:
    given: dict[bytes, bytes] = {}
    for name, value in headers:
        if name in _SINGLE:
            if name in given:
                raise MalformedRequest(
                    f"the header {_SINGLE[name]} is given twice", field=_SINGLE[name]
                )
            given[name] = value
    return given


def _check_media_type(given: dict[bytes, bytes]) -> None:
    """A browser sends JSON to another origin only if that allows it, and this server never does.
    Text and forms it sends without asking."""
    media_type = given.get(b"content-type", b"")
    if media_type == _JSON:
        return
    has_body = b"transfer-encoding" in given or given.get(b"content-length", b"0").strip(b"0")
    if has_body and media_type.partition(b";")[0].strip(b" \t").lower() != _JSON:
        raise UnsupportedMediaType(
            "Content-Type: must be application/json",
            field="Content-Type",
            hint="send the header `Content-Type: application/json`",
        )
