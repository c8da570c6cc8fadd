"""The files of the page. They hold no data, so that they need no token.

All are read when the server starts, and found by name in a table: no path of a request reaches the
file system.
"""

from __future__ import annotations

from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final, NamedTuple

from starlette.types import Receive, Scope, Send

from shiftboss.errors import UnknownPath
from shiftboss.server.http.guard import STATIC_PREFIX
from shiftboss.server.http.replies import Reply
from shiftboss.server.http.requests import Headers

# The pages, by the paths that people open.
PAGES: Final = {"/": "index.html", "/login": "login.html"}

_TYPES: Final = {
    "html": b"text/html; charset=utf-8",
    "css": b"text/css; charset=utf-8",
    "js": b"text/javascript; charset=utf-8",
    "json": b"application/json",
    "svg": b"image/svg+xml",
    "png": b"image/png",
    "ico": b"image/x-icon",
    "woff2": b"font/woff2",
    "webmanifest": b"application/manifest+json",
    "txt": b"text/plain; charset=utf-8",
}
_POLICY: Final = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    b"connect-src 'self'; font-src 'self'; manifest-src 'self'; form-action 'none'; "
    b"frame-ancestors 'none'; base-uri 'none'"
)
PAGE_HEADERS: Final = (
    (b"content-security-policy", _POLICY),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    # A browser asks whether it has the newest version.
    (b"cache-control", b"no-cache"),
)


class StaticFile(NamedTuple):
    content_type: bytes
    body: bytes
    etag: bytes

    def reply(self, headers: Headers) -> Reply:
        given = b", ".join(value for name, value in headers if name == b"if-none-match")
        all_headers = (*PAGE_HEADERS, (b"etag", self.etag))
        if self.etag in (each.strip().removeprefix(b"W/") for each in given.split(b",")):
            return Reply(304, self.content_type, b"", all_headers)
        return Reply(200, self.content_type, self.body, all_headers)


class StaticFiles:
    """GET / and /login, and GET /static/{path}."""

    def __init__(self) -> None:
        folder = files("shiftboss.server.web") / "static"
        self._files = {
            f"{STATIC_PREFIX}{name}": _read(name, item) for name, item in _walk(folder, "")
        }
        for path, name in PAGES.items():
            self._files[path] = self._files[f"{STATIC_PREFIX}{name}"]

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        file = self._files.get(scope["path"])
        if file is None:
            raise UnknownPath(f"there is nothing at {scope['path']}", field="path")
        await file.reply(scope["headers"]).send(send)


def _walk(folder: Traversable, prefix: str) -> list[tuple[str, Traversable]]:
    files: list[tuple[str, Traversable]] = []
    for item in folder.iterdir():
        name = f"{prefix}{item.name}"
        if item.is_dir():
            files += _walk(item, f"{name}/")
        elif name.rpartition(".")[2] in _TYPES:
            files.append((name, item))
    return files


def _read(name: str, item: Traversable) -> StaticFile:
    body = item.read_bytes()
    etag = b'"%b"' % sha256(body).hexdigest()[:32].encode()
    return StaticFile(_TYPES[name.rpartition(".")[2]], body, etag)
