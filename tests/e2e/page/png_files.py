"""PNG files: smaller than a browser writes them, and several as one animation (APNG)."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"


class Frame(NamedTuple):
    png: bytes
    milliseconds: int


def smaller(png: bytes) -> bytes:
    """The same picture, compressed as well as zlib can."""
    return _file([("IHDR", _header(png)), ("IDAT", _pixels(png))])


def animation(frames: Sequence[Frame]) -> bytes:
    """All frames, shown for ever. Where animations are not supported, the first is shown."""
    header = _header(frames[0].png)
    assert all(_header(frame.png) == header for frame in frames), "frames of one size and kind"
    chunks = [("IHDR", header), ("acTL", struct.pack(">II", len(frames), 0))]
    sequence = 0
    for number, frame in enumerate(frames):
        chunks.append(("fcTL", _control(sequence, header, frame.milliseconds)))
        pixels = _pixels(frame.png)
        if number == 0:
            chunks.append(("IDAT", pixels))
            sequence += 1
        else:
            chunks.append(("fdAT", struct.pack(">I", sequence + 1) + pixels))
            sequence += 2
    return _file(chunks)


def _control(sequence: int, header: bytes, milliseconds: int) -> bytes:
    width, height = struct.unpack(">II", header[:8])
    return struct.pack(">IIIIIHHBB", sequence, width, height, 0, 0, milliseconds, 1000, 0, 0)


def _header(png: bytes) -> bytes:
    return next(data for kind, data in _chunks(png) if kind == "IHDR")


def _pixels(png: bytes) -> bytes:
    packed = b"".join(data for kind, data in _chunks(png) if kind == "IDAT")
    return zlib.compress(zlib.decompress(packed), 9)


def _chunks(png: bytes) -> Iterator[tuple[str, bytes]]:
    assert png.startswith(SIGNATURE)
    at = len(SIGNATURE)
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        yield png[at + 4 : at + 8].decode("ascii"), png[at + 8 : at + 8 + length]
        at += length + 12


def _file(chunks: Sequence[tuple[str, bytes]]) -> bytes:
    parts = [SIGNATURE]
    for kind, data in [*chunks, ("IEND", b"")]:
        body = kind.encode("ascii") + data
        parts += [struct.pack(">I", len(data)), body, struct.pack(">I", zlib.crc32(body))]
    return b"".join(parts)
