"""Lines out of chunks."""

from __future__ import annotations

from shiftboss.orchestrator.guardian.connection import LINE_BYTES_MAX, LineSplitter


def test_lines_do_not_depend_on_how_they_are_split_into_chunks() -> None:
    text = b"one\n\nthree\nfour"
    for size in range(1, len(text) + 1):
        cutter = LineSplitter()
        chunks = [text[start : start + size] for start in range(0, len(text), size)]
        lines = [line for chunk in chunks for line in cutter.cut(chunk)]
        assert [*lines, cutter.rest()] == ["one", "", "three", "four"]


def test_a_character_may_be_split_between_chunks() -> None:
    first, second = "ä".encode()[:1], "ä".encode()[1:]
    cutter = LineSplitter()
    assert cutter.cut(first) == []
    assert cutter.cut(second + b"\n") == ["ä"]


def test_a_line_that_is_too_long_is_truncated_and_the_next_one_is_intact() -> None:
    cutter = LineSplitter()
    for _ in range(50):
        assert cutter.cut(b"x" * 100_000) == []
    assert cutter.cut(b"end\nnext\n") == ["x" * LINE_BYTES_MAX, "next"]
    assert cutter.rest() == ""
