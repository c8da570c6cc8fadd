"""Who may ask.

On a loopback address nobody needs a token, but a web page must not reach the server through the
user's browser: the Host must be a loopback name and the Origin, if there is one, too. On any other
address every request needs the token.
"""

from __future__ import annotations

import hmac
import ipaddress
from urllib.parse import urlsplit

from shiftboss.errors import Forbidden, Unauthorized
from shiftboss.server.http.exchange import Headers, header


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


OPERATOR_PREFIX = "/operator/"
WEBHOOK_PREFIX = "/ci/webhook/"
OPERATOR_HEADER = b"shiftboss-operator"


class Guard:
    """What only the operator may do needs the operator's token as well, on every address: a
    worker on the same machine is not the operator."""

    def __init__(self, token: str | None, operator_token: str | None = None) -> None:
        self._token = token
        self._operator_token = operator_token
        self._known_hosts: dict[str, bool] = {}

    def check(self, path: str, headers: Headers) -> None:
        # A forge has no token of ours, and calls us by whatever name it knows: it signs. Who cannot
        # sign, a web page included, gets the same refusal whatever there is; who can makes a look
        # at CI due that was due anyway.
        if path.startswith(WEBHOOK_PREFIX):
            return
        self._check_caller(path, headers)
        if path.startswith(OPERATOR_PREFIX):
            self._check_operator(headers)

    def _check_operator(self, headers: Headers) -> None:
        said = header(headers, OPERATOR_HEADER) or ""
        if self._operator_token is None or not hmac.compare_digest(
            said.encode(), self._operator_token.encode()
        ):
            raise Forbidden(
                "only the operator may do this",
                field="Shiftboss-Operator",
                hint="send the operator's token, which lies beside the database; our commands read "
                "it from there, or from SHIFTBOSS_OPERATOR_TOKEN, which has to be set for a run "
                "that starts its own server",
            )

    def _check_caller(self, path: str, headers: Headers) -> None:
        if self._token is not None:
            self._check_token(path, headers)
            return
        self._check_loopback(header(headers, b"host") or "", "Host")
        origin = header(headers, b"origin")
        if origin is not None:
            self._check_loopback(origin.partition("://")[2], "Origin")

    def _check_token(self, path: str, headers: Headers) -> None:
        if path == "/health":
            return
        said = header(headers, b"authorization") or ""
        if not hmac.compare_digest(said.encode(), f"Bearer {self._token}".encode()):
            raise Unauthorized(
                "this server needs a token",
                field="Authorization",
                hint="send `Authorization: Bearer TOKEN`; our clients read SHIFTBOSS_TOKEN",
            )

    def _check_loopback(self, netloc: str, name: str) -> None:
        known = self._known_hosts.get(netloc)
        if known is None:
            known = _names_loopback(netloc)
            if len(self._known_hosts) < 100:
                self._known_hosts[netloc] = known
        if not known:
            raise Forbidden(
                f"{name} {netloc!r} is not a loopback name",
                field=name,
                hint="use http://127.0.0.1:PORT, or serve with a token",
            )


def _names_loopback(netloc: str) -> bool:
    try:
        host = urlsplit(f"//{netloc}").hostname
    except ValueError:
        return False
    return host is not None and is_loopback(host)
