"""Access control.

On a loopback address no token is needed, but a web page must not reach the server through the
user's browser: the Host, and the Origin if there is one, must be loopback names. On any other
address every request needs the token.
"""

from __future__ import annotations

import hmac
from urllib.parse import urlsplit

from shiftboss.errors import Forbidden, Unauthorized
from shiftboss.server.http.requests import Headers, header
from shiftboss.system.loopback import is_loopback

OPERATOR_PREFIX = "/operator/"
WEBHOOK_PREFIX = "/ci/webhook/"
OPERATOR_HEADER = b"shiftboss-operator"
# How many host names are remembered with their check.
HOSTS_MAX = 100


class Guard:
    """The operator's operations need the operator's token as well, on every address: a worker on
    the same machine is not the operator."""

    def __init__(self, token: str | None, operator_token: str | None = None) -> None:
        self._token = token
        self._operator_token = operator_token
        self._hosts: dict[str, bool] = {}

    def check(self, path: str, headers: Headers) -> None:
        # A forge has no token, and may use any host name: it signs its requests. Without a valid
        # signature every request gets the same refusal. With one, it only makes a CI check due
        # that would have come anyway.
        if path.startswith(WEBHOOK_PREFIX):
            return
        self._check_caller(path, headers)
        if path.startswith(OPERATOR_PREFIX):
            self._check_operator(headers)

    def _check_operator(self, headers: Headers) -> None:
        token = header(headers, OPERATOR_HEADER) or ""
        if self._operator_token is None or not hmac.compare_digest(
            token.encode(), self._operator_token.encode()
        ):
            raise Forbidden(
                "only the operator may do this",
                field="Shiftboss-Operator",
                hint="send the operator's token. Commands read it from SHIFTBOSS_OPERATOR_TOKEN, "
                "or from operator-token in the .shiftboss folder of the server: run them in its "
                "folder, or set the variable as it was set for the server or the run",
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
        credentials = header(headers, b"authorization") or ""
        if not hmac.compare_digest(credentials.encode(), f"Bearer {self._token}".encode()):
            raise Unauthorized(
                "this server needs a token",
                field="Authorization",
                hint="send `Authorization: Bearer TOKEN`; shiftboss clients read SHIFTBOSS_TOKEN",
            )

    def _check_loopback(self, netloc: str, name: str) -> None:
        is_allowed = self._hosts.get(netloc)
        if is_allowed is None:
            is_allowed = _names_loopback(netloc)
            if len(self._hosts) < HOSTS_MAX:
                self._hosts[netloc] = is_allowed
        if not is_allowed:
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
