"""Which requests the page of this server makes, as opposed to pages of other sites.

A browser sends the cookie of a session with every request to the server, no matter which page
caused it. So a request with a cookie has to show that the page itself makes it.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from shiftboss.errors import Forbidden, UnsupportedMediaType
from shiftboss.server.web.session_cookie import session_secret

_JSON: Final = b"application/json"
_OWN_SITES: Final = (b"none", b"same-origin")
_SESSION_PREFIXES: Final = ("/bus/", "/operator/")
_MCP_PATH: Final = "/mcp"


def may_have_session(method: str, path: str) -> bool:
    """The page reads, calls operations and logs out. What workers and agents send has tokens."""
    if method in ("GET", "HEAD"):
        return path != _MCP_PATH
    return path.startswith(_SESSION_PREFIXES) or path == "/logout"


def opens_page(given: dict[bytes, bytes]) -> bool:
    """Whether somebody follows a link to the page, from wherever it is: a chat, a mail. The page
    has no data of its own, and asks for them with requests of its own."""
    return (
        given.get(b"sec-fetch-mode") == b"navigate" and given.get(b"sec-fetch-dest") == b"document"
    )


def check_not_from_page(site: bytes | None) -> None:
    """An image or a script of a web page is asked for without an Origin. It reads nothing, but it
    would use up the requests and the connections of the workers."""
    if site is not None and site.lower() not in _OWN_SITES:
        raise Forbidden(
            "web pages of other origins cannot use this server",
            field="Sec-Fetch-Site",
            hint="open the address itself",
        )


class OwnPages:
    def __init__(self, scheme: str, public_url: str | None, *, is_proxied: bool) -> None:
        self._schemes = (scheme, "https") if is_proxied else (scheme,)
        parts = urlsplit(public_url or "")
        self._public_origin = f"{parts.scheme}://{parts.netloc}".lower().encode()
        self._only_secure = scheme == "https" or parts.scheme == "https"

    def secret(self, given: dict[bytes, bytes]) -> bytes | None:
        host = given.get(b"host", b"")
        return session_secret(given[b"cookie"], host, only_secure=self._only_secure)

    def check(self, method: str, given: dict[bytes, bytes]) -> None:
        """Raises Forbidden or UnsupportedMediaType."""
        origin = given.get(b"origin")
        if origin is not None and not self._is_own(origin.lower(), given.get(b"host", b"")):
            raise Forbidden(
                f"Origin {str(origin, 'latin-1')!r} is not this server",
                field="Origin",
                hint="a session counts for the page of this server alone",
            )
        check_not_from_page(given.get(b"sec-fetch-site"))
        media_type = given.get(b"content-type", b"").partition(b";")[0].strip(b" \t").lower()
        # Other sites can send forms and text without asking, but no JSON.
        if method == "POST" and media_type != _JSON:
            raise UnsupportedMediaType(
                "Content-Type: must be application/json",
                field="Content-Type",
                hint="send the header `Content-Type: application/json`",
            )

    def _is_own(self, origin: bytes, host: bytes) -> bool:
        own = [f"{scheme}://".encode() + host.lower() for scheme in self._schemes]
        return origin in own or origin == self._public_origin
