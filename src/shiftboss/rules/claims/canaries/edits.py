"""Edits of the text of a test file, and the parts that the languages have in common.

No edit adds or removes a line, because tests may compare line numbers of their own file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from random import Random
from typing import Final, Literal, NamedTuple

from shiftboss.rules.claims.source_text import TextEdit

SabotageKind = Literal["value", "negation", "raise"]
# Whether every case of a test with parameters fails, or at least one of them.
SabotagedCases = Literal["all", "some"]

# A file that is larger is left alone, so that none can be written to waste time.
FILE_CHARACTERS_MAX: Final = 500_000
_SHOWN_CHARACTERS_MAX: Final = 40
LETTERS: Final = "xabcdefghijklmnopqrstuvwyz"
_SHEBANG: Final = re.compile(r"\ufeff?(?:#![^\[\n][^\n]*\n)?")
_CODE: Final = re.compile(r"\S")


class Sabotage(NamedTuple):
    """A text edit that makes one test fail.

    `test` is named as in the runner's report, without parameters. `line` and `change` tell people
    what was done. `cases`: whether all cases of a parametrised test fail, or only some of them.
    """

    test: str
    line: int
    change: str
    kind: SabotageKind
    start: int
    end: int
    replacement: str
    cases: SabotagedCases = "all"


def value_change(old: str, new: str) -> str:
    return f"expected value {_shown(old)} changed to {_shown(new)}"


def unique_tests(sabotages: Sequence[Sabotage], names: Iterable[str]) -> list[Sabotage]:
    """Without the tests whose name is in `names` more than once: a report mixes them up."""
    counts: dict[str, int] = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    return [sabotage for sabotage in sabotages if counts.get(sabotage.test) == 1]


def word(random: Random) -> str:
    return "".join(random.choices(LETTERS, k=random.choice(range(4, 10))))


def line_of(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def comment_before_code(text: str, masked: str, nonce: str) -> list[TextEdit]:
    """A block comment before the first code of a file, after a shebang and the comments in which
    tools look for settings. For languages with `/* comments */`."""
    header = _SHEBANG.match(text)
    first = _CODE.search(masked, header.end() if header else 0)
    return [block_comment(first.start(), nonce)] if first else []


def block_comment(position: int, nonce: str) -> TextEdit:
    return TextEdit(position, position, f"/* {nonce} */ ")


def _shown(source: str) -> str:
    if len(source) <= _SHOWN_CHARACTERS_MAX:
        return source
    # Both ends, because a changed string differs at its end.
    half = _SHOWN_CHARACTERS_MAX // 2
    return f"{source[:half]}…{source[-half:]}"
