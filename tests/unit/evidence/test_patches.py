"""Patches of git as hunks, whatever the lines of the files look like."""

from __future__ import annotations

import pytest

from shiftboss.evidence.mirror.diffs import parse_patch

pytestmark = pytest.mark.requirement("OWN-04")

HEAD = b"diff --git a/f b/f\nindex 1..2 100644\n--- a/f\n+++ b/f\n"


def test_a_hunk_has_its_lines_and_where_they_start() -> None:
    patch = HEAD + b"@@ -3,2 +3,3 @@ def login():\n one\n-two\n+2\n+3\n"
    ((hunk,),) = parse_patch(patch, 100)
    assert (hunk.old_start, hunk.new_start) == (3, 3)
    assert hunk.header == "@@ -3,2 +3,3 @@ def login():"
    assert hunk.lines == [(" ", "one"), ("-", "two"), ("+", "2"), ("+", "3")]


def test_lines_that_look_like_the_head_of_a_file_are_lines() -> None:
    patch = HEAD + b"@@ -1,2 +1,2 @@\n--- a/g\n-@@ -1 +1 @@\n+++ b/g\n+diff --git a b\n" + HEAD
    first, second = parse_patch(patch, 100)
    assert [text for _, text in first[0].lines] == [
        "-- a/g",
        "@@ -1 +1 @@",
        "++ b/g",
        "diff --git a b",
    ]
    assert second == []


def test_a_missing_line_break_at_the_end_is_no_line() -> None:
    patch = HEAD + b"@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n"
    assert parse_patch(patch, 100)[0][0].lines == [("-", "a"), ("+", "b")]


def test_control_characters_are_visible_and_tabs_stay() -> None:
    patch = HEAD + b"@@ -0,0 +1,2 @@\n+\tx\x1b[2J\xff\r\n+" + "a\u202eb\n".encode()
    lines = parse_patch(patch, 100)[0][0].lines
    assert lines == [("+", "\tx\\x1b[2J\N{REPLACEMENT CHARACTER}"), ("+", r"a\u202eb")]


def test_long_lines_and_long_patches_are_cut() -> None:
    patch = HEAD + b"@@ -0,0 +1 @@\n+" + b"x" * 5000 + b"\n@@ -9,0 +9 @@\n+y\n"
    (hunks,) = parse_patch(patch, 1)
    assert [len(hunk.lines[0][1]) for hunk in hunks] == [2003]


@pytest.mark.parametrize("patch", [b"", b"@@ -1 +1 @@\n+x", HEAD + b"@@ -1,9 +1,9 @@\n x"])
def test_other_and_unfinished_patches_do_no_harm(patch: bytes) -> None:
    assert len(parse_patch(patch, 100)) <= 1
