"""The cookie of a session: how it is named, set and found.

Scripts cannot read it, and a browser sends it only to the server itself and for requests of its own
pages. Cookies know no ports, so the name has the port of the server: several servers of a machine
have sessions side by side.
"""

from __future__ import annotations

import re
from typing import Final

NAME: Final = "shiftboss_session"
# A browser takes a cookie with this prefix only from the host itself, over TLS, for all its paths.
SECURE_PREFIX: Final = "__Host-"

_PORT: Final = re.compile(rb":([0-9]{1,5})\Z")
_VALUE: Final = re.compile(rb"[A-Za-z0-9_-]{20,200}")


def cookie_name(host: bytes, *, is_secure: bool) -> str:
    """`host` is the header, as the browser sends it with every request."""
    port = _PORT.search(host)
    name = NAME if port is None else f"{NAME}_{int(port[1])}"
    return f"{SECURE_PREFIX}{name}" if is_secure else name


def set_cookie(host: bytes, secret: str, seconds: int, *, is_secure: bool) -> bytes:
    parts = [
        f"{cookie_name(host, is_secure=is_secure)}={secret}",
        "HttpOnly",
        "SameSite=Strict",
        "Path=/",
        f"Max-Age={seconds}",
    ]
    return "; ".join(parts + ["Secure"] * is_secure).encode()


def clear_cookie(host: bytes, *, is_secure: bool) -> bytes:
    return set_cookie(host, "", 0, is_secure=is_secure)


def session_secret(cookie: bytes, host: bytes, *, only_secure: bool) -> bytes | None:
    """The secret in the header of a request. `only_secure`: a cookie that other hosts or plain HTTP
    could have set does not count."""
    values: dict[str, bytes] = {}
    for part in cookie.split(b";"):
        name, _, value = part.strip().partition(b"=")
        values.setdefault(str(name, "latin-1"), value)
    secret = values.get(cookie_name(host, is_secure=True))
    if secret is None and not only_secure:
        secret = values.get(cookie_name(host, is_secure=False))
    return secret if secret is not None and _VALUE.fullmatch(secret) else None
