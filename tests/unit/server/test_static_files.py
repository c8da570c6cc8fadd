"""The files of the page: found by name alone, with headers that let nothing else in."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import shiftboss.server.web
from shiftboss.errors import UnknownPath
from shiftboss.server.web.static_files import PAGE_HEADERS, StaticFiles
from tests.in_process import InProcessReply

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("OWN-04")]

FOLDER = Path(shiftboss.server.web.__file__).parent / "static"
FILES = StaticFiles()


async def get(path: str, **headers: str) -> InProcessReply:
    sent: list[dict[str, object]] = []

    async def send(message: dict[str, object]) -> None:
        sent.append(message)

    async def receive() -> dict[str, object]:
        raise AssertionError("a file needs no body")

    lines = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    await FILES({"path": path, "headers": lines}, receive, send)  # type: ignore[arg-type]
    start, body = sent
    given = {name.decode(): value.decode() for name, value in start["headers"]}  # type: ignore[attr-defined]
    return InProcessReply(start["status"], body["body"], given)  # type: ignore[arg-type]


@pytest.mark.parametrize("path", ["/", "/login"])
async def test_a_page_is_html_and_lets_nothing_else_in(path: str) -> None:
    reply = await get(path)
    assert reply.headers["content-type"] == "text/html; charset=utf-8"
    policy = reply.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
    assert "unsafe" not in policy
    assert "http" not in policy
    for name, value in PAGE_HEADERS:
        assert reply.headers[name.decode()] == value.decode()


async def test_every_file_that_the_pages_name_is_served_with_its_type() -> None:
    types = {"js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8"}
    for page in ("/", "/login"):
        names = re.findall(r'(?:src|href)="(/static/[^"]+)"', (await get(page)).body.decode())
        assert names
        for name in names:
            reply = await get(name)
            kind = name.rpartition(".")[2]
            assert reply.headers["content-type"] == types.get(kind, reply.headers["content-type"])
            assert reply.headers["x-content-type-options"] == "nosniff"


def test_the_page_preloads_the_modules_of_its_start_and_the_board() -> None:
    """One that is missing costs a round trip for each module in between."""
    preloaded = set(re.findall(r'modulepreload" href="/static/([^"]+)"', _index()))
    app, board = "js/app.js", "js/views/board.js"
    assert preloaded == _imports(app, _imports(board, {app, board})) - {app}


def test_what_a_module_exports_is_used_by_another_one() -> None:
    """Modules that are loaded by their name export `view`."""
    texts = {path: path.read_text() for path in FOLDER.rglob("*.js")}
    unused = [
        f"{path.relative_to(FOLDER)}: {name}"
        for path, text in texts.items()
        for name in re.findall(r"^export (?:async )?(?:function|const|class) (\w+)", text, re.M)
        if name != "view"
        and not any(re.search(rf"\b{name}\b", texts[each]) for each in texts if each != path)
    ]
    assert unused == []


def _index() -> str:
    return (FOLDER / "index.html").read_text()


def _imports(module: str, known: set[str]) -> set[str]:
    """`known` with everything that the module imports, directly or not."""
    for name in re.findall(r'^import .* from "([^"]+)";$', (FOLDER / module).read_text(), re.M):
        path = (FOLDER / module).parent.joinpath(name).resolve()
        imported = str(path.relative_to(FOLDER.resolve()))
        if imported not in known:
            known = _imports(imported, {*known, imported})
    return known


async def test_no_page_has_inline_scripts_or_styles() -> None:
    for page in FOLDER.glob("*.html"):
        text = page.read_text()
        assert not re.search(r"<script(?![^>]*\bsrc=)", text), page.name
        assert not re.search(r"<style|\sstyle=|\son\w+=", text), page.name


@pytest.mark.parametrize(
    "path",
    [
        "/static/",
        "/static/../__init__.py",
        "/static/%2e%2e/__init__.py",
        "/static/js/../../__init__.py",
        "/static//etc/passwd",
        "/static/js",
        "/static/js/app.js/",
        "/static/js/app.js\x00.html",
        "/index.html",
    ],
)
async def test_no_path_reaches_the_file_system(path: str) -> None:
    with pytest.raises(UnknownPath):
        await get(path)


async def test_a_browser_that_has_the_newest_version_gets_no_body() -> None:
    first = await get("/static/js/app.js")
    assert first.headers["cache-control"] == "no-cache"
    etag = first.headers["etag"]
    for given in (etag, f"W/{etag}", f'"other", {etag}'):
        again = await get("/static/js/app.js", if_none_match=given)
        assert (again.status, again.body) == (304, b"")
    assert (await get("/static/js/app.js", if_none_match='"other"')).status == 200
