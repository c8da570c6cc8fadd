"""Bytes that are almost HTTP: requests with usual and unusual parts, and accidents on the way."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import strategies as st

METHODS = [b"POST"] * 6 + [b"GET", b"HEAD", b"OPTIONS", b"PUT", b"post", b"CONNECT", b"BREW"]
PATHS = [b"/bus/register_worker"] * 4 + [
    b"/bus/poll_task",
    b"/bus/list_tasks",
    b"/bus/add_task",
    b"/bus/regi%73ter_worker",
    b"/bus/register_worker?x=1",
    b"/bus//register_worker",
    b"/bus/../health",
    b"http://127.0.0.1/bus/register_worker",
    b"//evil.example/bus/register_worker",
    b"/operator/waive",
    b"/swarm/s/register",
    b"/health",
    b"/mcp",
    b"*",
    b"/%00",
    b"/\xff",
    b"",
]
VERSIONS = [b"HTTP/1.1"] * 8 + [
    b"HTTP/1.0",
    b"HTTP/1.2",
    b"HTTP/2.0",
    b"HTTP/0.9",
    b"XTTP/1.1",
    b"",
]
HOSTS = [b"Host: 127.0.0.1"] * 8 + [
    b"Host: evil.example",
    b"Host : 127.0.0.1",
    b"host:127.0.0.1",
    b"",
]
TYPES = [b"Content-Type: application/json"] * 6 + [b"Content-Type: text/plain", b""]
OTHERS = [
    b"Connection: keep-alive",
    b"Connection: close",
    b"Connection: upgrade",
    b"Upgrade: h2c",
    b"Expect: 100-continue",
    b"Origin: http://127.0.0.1",
    b"Origin: http://evil.example",
    b"Host: 127.0.0.1",
    b"Content-Length: 0",
    b"Content-Length: 13",
    b"Transfer-Encoding: chunked",
    b"Transfer-Encoding: identity",
    b"Transfer-Encoding : chunked",
    b"Transfer-Encoding: xchunked",
    b"X: " + b"x" * 3000,
    b"X:",
    b": x",
    b"X",
    b" folded",
    b"X: a\x00b",
    b"X: \xe9\xff",
    b"X: a\rb",
]
BODIES = [
    b'{"name":"w1"}',
    b'{"name":"w2"}',
    b'{"name":"w1","timeout_ms":0}',
    b'{"bead_id":"t1","title":"T"}',
    b"{}",
    b"",
    b"not json",
    b'{"name":"\\ud800"}',
    b"[" * 300,
    b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
]
LENGTHS = [b"%d"] * 10 + [
    b"+%d",
    b"-%d",
    b"0x%x",
    b" %d ",
    b"%d, %d",
    b"000%d",
    b"%d1",
    b"99999999999999999999",
]
LINE_ENDS = [b"\r\n"] * 10 + [b"\n", b"\r"]


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    body = draw(st.sampled_from(BODIES))
    is_chunked = draw(st.integers(0, 5)) == 0
    framing = b"Transfer-Encoding: chunked" if is_chunked else length_line(draw, body)
    lines = [
        b" ".join(draw(st.sampled_from(part)) for part in (METHODS, PATHS, VERSIONS)),
        draw(st.sampled_from(HOSTS)),
        draw(st.sampled_from(TYPES)),
        framing,
        *draw(st.lists(st.sampled_from(OTHERS), max_size=2)),
    ]
    end = draw(st.sampled_from(LINE_ENDS))
    head = end.join(line for line in lines if line) + end + end
    return head + (chunked(draw, body) if is_chunked else body)


def length_line(draw: st.DrawFn, body: bytes) -> bytes:
    form = draw(st.sampled_from(LENGTHS))
    count = form.count(b"%")
    return b"Content-Length: " + (form % ((len(body),) * count) if count else form)


def chunked(draw: st.DrawFn, body: bytes) -> bytes:
    size = draw(st.sampled_from([b"%x", b"%X", b"%x;ext=1", b"%x ", b"0%x", b"-%x", b"%xg"]))
    end = draw(st.sampled_from([b"0\r\n\r\n", b"0\r\nX: y\r\n\r\n", b"0\r\n", b""]))
    return (size % len(body) + b"\r\n" + body + b"\r\n" if body else b"") + end


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    """Some requests in a row, sometimes with an accident: a byte changed, missing or added."""
    stream = draw(st.sampled_from([b"", b"", b"\r\n"]))
    stream += b"".join(draw(st.lists(requests(), min_size=1, max_size=3)))
    if stream and draw(st.booleans()):
        at = draw(st.integers(0, len(stream) - 1))
        added = draw(st.sampled_from([b"", b"\x00", b"\r", b"\n", b" ", b":", b"\xff", b"9"]))
        stream = stream[:at] + added + stream[at + draw(st.integers(0, 1)) :]
    return stream


@st.composite
def packets(draw: st.DrawFn) -> list[bytes]:
    """A stream, cut anywhere."""
    stream = draw(streams())
    inside = st.integers(1, max(1, len(stream) - 1))
    cuts = sorted({0, len(stream), *draw(st.lists(inside, max_size=4))})
    return [stream[start:end] for start, end in pairwise(cuts)]
