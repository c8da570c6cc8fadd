"""Lines out of chunks."""

from __future__ import annotations

from shiftboss.orchestrator.guardian.connection import LINE_BYTES_MAX, LineSplitter


def test_lines_do_not_depend_on_how_they_are_chopped() -> None:
    text = b"one\n\nthree\nfour"
    for size in range(1, len(text) + 1):
        cutter = LineSplitter()
        chunks = [text[start : start + size] for start in range(0, len(text), size)]
        lines = [line for chunk in chunks for line in cutter.cut(chunk)]
        assert [*lines, cutter.rest()] == ["one", "", "three", "four"]


def test_a_letter_may_come_in_two_parts() -> None:
    first, second = "ä".encode()[:1], "ä".encode()[1:]
    cutter = LineSplitter()
    assert cutter.cut(first) == []
    assert cutter.cut(second + b"\n") == ["ä"]


def test_of_a_line_that_is_too_long_the_beginning_is_kept_and_the_next_is_whole() -> None:
    cutter = LineSplitter()
    for _ in range(50):
        assert cutter.cut(b"x" * 100_000) == []
    assert cutter.cut(b"end\nnext\n") == ["x" * LINE_BYTES_MAX, "next"]
    assert cutter.rest() == ""
