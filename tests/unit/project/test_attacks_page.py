"""The list of attacks: long enough, and every test that it names is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ROWS_MIN = 100
_ROW = re.compile(r"^\| (.+) \| (.+) \| `?([\w/.]+\.py)::(\w+)`? \|$")


def rows() -> list[tuple[str, str, str, str]]:
    lines = (ROOT / "docs" / "attacks.md").read_text().splitlines()
    entries = [
        line for line in lines if line.startswith("| ") and line != "| attack | result | test |"
    ]
    matches = [(_ROW.match(line), line) for line in entries]
    assert [line for match, line in matches if match is None] == [], "not a row with a test"
    return [(m[1], m[2], m[3], m[4]) for m, _ in matches if m is not None]


def test_at_least_a_hundred_attacks_are_listed_and_each_once() -> None:
    attacks = [attack for attack, *_ in rows()]
    assert len(attacks) >= ROWS_MIN
    assert len(set(attacks)) == len(attacks)


@pytest.mark.parametrize("path", sorted({path for _, _, path, _ in rows()}))
def test_every_test_that_is_named_exists(path: str) -> None:
    text = (ROOT / path).read_text()
    named = {name for _, _, file, name in rows() if file == path}
    missing = {name for name in named if not re.search(rf"^(?:async )?def {name}\(", text, re.M)}
    assert missing == set()
