"""The line that a person types below the table of a run."""

from __future__ import annotations

import pytest

from shiftboss.cli.common.line_input import LINE_CHARACTERS_MAX, TypedLine

pytestmark = pytest.mark.requirement("OWN-12")


def test_a_line_is_complete_with_enter() -> None:
    typed = TypedLine()
    assert typed.type(b"bl") == []
    assert typed.text == "bl"
    assert typed.type(b"ue\r") == ["blue"]
    assert typed.text == ""
    assert typed.type(b"\n  \n") == [], "an empty line is no answer"
    assert typed.type(b"one\ntwo\n") == ["one", "two"]


def test_typing_mistakes_can_be_corrected() -> None:
    typed = TypedLine()
    assert typed.type(b"rex\x7fd\n") == ["red"]
    assert typed.type(b"wrong\x15green\n") == ["green"]
    assert typed.type(b"\x1b[A") == [], "a cursor key types nothing"
    assert typed.type(b"\x00\x07ok\n") == ["ok"]


def test_characters_may_arrive_in_pieces_and_lines_have_a_limit() -> None:
    typed = TypedLine()
    first, second = "ü".encode()[:1], "ü".encode()[1:]
    assert typed.type(first) == []
    assert typed.type(second + b"\n") == ["ü"]
    assert typed.type(b"a" * (LINE_CHARACTERS_MAX + 5) + b"\n") == ["a" * LINE_CHARACTERS_MAX]
