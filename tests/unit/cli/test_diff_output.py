"""A diff on a terminal: what an agent wrote cannot control it."""

from __future__ import annotations

from pathlib import Path

import pytest

from shiftboss.cli.commands.runs.diff import patch_lines
from shiftboss.cli.common.pager import choose_pager, page

PATCH = [
    "diff --git a/x b/x",
    "--- a/x",
    "+++ b/x",
    "@@ -1 +1,2 @@",
    "-old\ttab",
    "+\x1b]0;owned\x07\x1b[8mhidden",
    " same\r",
]


def test_escape_sequences_of_an_agent_are_made_visible() -> None:
    plain = list(patch_lines(PATCH, colours=False))
    assert plain[4:] == ["-old\ttab", "+\\x1b]0;owned\\x07\\x1b[8mhidden", " same\\r"]
    assert plain[:4] == PATCH[:4]


def test_the_colours_are_our_own() -> None:
    coloured = list(patch_lines(PATCH, colours=True))
    assert coloured[1] == "\x1b[1m--- a/x\x1b[m"
    assert coloured[3:6] == [
        "\x1b[36m@@ -1 +1,2 @@\x1b[m",
        "\x1b[31m-old\ttab\x1b[m",
        "\x1b[32m+\\x1b]0;owned\\x07\\x1b[8mhidden\x1b[m",
    ]


@pytest.mark.parametrize(
    ("environment", "settings", "pager"),
    [
        ({"GIT_PAGER": "most", "PAGER": "more"}, {"core.pager": "delta"}, "most"),
        ({"PAGER": "more"}, {"core.pager": "delta -n"}, "delta -n"),
        ({"PAGER": "more"}, {"core.pager": "delta", "pager.diff": "bat"}, "bat"),
        ({"PAGER": "more"}, {"pager.diff": "true"}, "more"),
        ({"GIT_PAGER": "most"}, {"pager.diff": "false"}, None),
        ({"GIT_PAGER": "", "PAGER": "more"}, {}, None),
        ({"PAGER": "cat"}, {}, None),
    ],
)
def test_the_pager_is_chosen_as_git_would(
    environment: dict[str, str], settings: dict[str, str], pager: str | None
) -> None:
    assert choose_pager(environment, settings) == pager


def test_a_pager_gets_the_lines_and_may_end_early(tmp_path: Path) -> None:
    file = tmp_path / "paged"
    assert page(["one", "two"], f"cat > {file}")
    assert file.read_text() == "one\ntwo\n"
    assert not page(("x" * 1000 for _ in range(1000)), "true")
