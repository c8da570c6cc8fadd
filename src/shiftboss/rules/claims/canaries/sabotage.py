"""Sabotages test files for a canary run: which tests can be made to fail, and how.

Test runs are believed because they can fail. So a few tests are made to fail, at random, and an
honest run reports exactly these. Every test file also gets comments with a nonce, so that its hash,
or that of a test, does not tell which tests were sabotaged.

Texts keep their line ends: read files without translating them, and write them in the same way.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from random import Random, SystemRandom
from typing import Final, NamedTuple

from shiftboss.rules.claims.canaries.edits import Sabotage, SabotageKind
from shiftboss.rules.claims.canaries.go_and_rust import (
    go_comments,
    go_sabotages,
    rust_comments,
    rust_sabotages,
)
from shiftboss.rules.claims.canaries.javascript import javascript_comments, javascript_sabotages
from shiftboss.rules.claims.canaries.python import python_comments, python_sabotages
from shiftboss.rules.claims.source_text import TextEdit, apply_edits
from shiftboss.rules.claims.test_scanners.go import go_machine

__all__ = [
    "Sabotage",
    "apply_sabotages",
    "choose_one",
    "choose_sabotages",
    "fails_with",
    "sabotages",
]

_NONCE: Final = re.compile(r"[0-9A-Za-z_]{1,100}")
# Reports of cargo and go have the file of the binary or the package before the name.
_FUNCTION: Final = re.compile(
    r"(?:[^\s\[]+\.rs |[^\s\[]+ (?=Test))?(?:\w+::)*(\w+)(?:[\[/].*)?", re.DOTALL
)


class _Language(NamedTuple):
    files: re.Pattern[str]
    sabotages: Callable[[str, Random], list[Sabotage]]
    comments: Callable[[str, str], list[TextEdit]]


_LANGUAGES: Final = (
    _Language(re.compile(r".*\.py"), python_sabotages, python_comments),
    # Not .jsx and .tsx: the text between their tags cannot be told from code.
    _Language(re.compile(r".*\.[cm]?[jt]s"), javascript_sabotages, javascript_comments),
    _Language(re.compile(r".*_test\.go"), go_sabotages, go_comments),
    _Language(re.compile(r".*\.rs"), rust_sabotages, rust_comments),
)
# The best kind first: only a changed value shows that results are really compared.
_KINDS: Final[tuple[SabotageKind, ...]] = ("value", "negation", "raise")


def sabotages(path: str, text: str, random: Random | None = None) -> list[Sabotage]:
    """Every way to make a test of the file fail. None for a language that is not known, and for
    tests of which it is not sure that they would fail. What is put into a test depends on `random`,
    so that the code under test cannot look for it; without one it is another in every call.

    Some may be of tests that the runner does not run: choose from those that passed.
    """
    language = _language_of(path)
    return language.sabotages(text, random or SystemRandom()) if language is not None else []


def apply_sabotages(path: str, text: str, chosen: Sequence[Sabotage], nonce: str) -> str:
    """The text with the chosen sabotages, and comments with the nonce.

    Raises ValueError if a test is chosen twice, if two sabotages overlap, or if the nonce does not
    fit into a comment.
    """
    if not _NONCE.fullmatch(nonce):
        raise ValueError("the nonce must consist of letters and digits")
    if len({sabotage.test for sabotage in chosen}) < len(chosen):
        raise ValueError("a test can be sabotaged only once")
    language = _language_of(path)
    if language is None:
        return text
    # Two tests may be the same function, inherited by two classes.
    edits = dict.fromkeys(TextEdit(edit.start, edit.end, edit.replacement) for edit in chosen)
    return apply_edits(text, [*edits, *language.comments(text, nonce)])


def choose_sabotages(
    options: Mapping[str, Sequence[Sabotage]], random: Random, limit: int
) -> dict[str, list[Sabotage]]:
    """At most `limit` sabotages of different tests, by path, of the options by path.

    At most half of the tests are chosen where there are two or more, because the others must still
    pass; tests that fail together (`fails_with`) count as one. At least half of the sabotages
    change a value, as far as possible; the others are mixed.
    """
    tests = _by_test(options)
    random.shuffle(tests)
    count = min(limit, len(tests) // 2 if len(tests) > 1 else len(tests))
    with_value = [test for test in tests if "value" in test.kinds()]
    values = with_value[: (count + 1) // 2]
    others = [test for test in tests if test not in values][: count - len(values)]
    chosen: dict[str, list[Sabotage]] = {}
    used: list[SabotageKind] = []
    for number, test in enumerate(values + others):
        kind: SabotageKind = "value" if number < len(values) else _rarest(test.kinds(), used)
        used.append(kind)
        ways = [sabotage for sabotage in test.sabotages if sabotage.kind == kind]
        chosen.setdefault(test.path, []).append(random.choice(ways))
    return chosen


def choose_one(options: Sequence[Sabotage], random: Random) -> Sabotage:
    """Every test has the same chance, and each of its kinds, however many shapes it has."""
    test = random.choice(_by_test({"": options}))
    kind = random.choice(test.kinds())
    return random.choice([sabotage for sabotage in test.sabotages if sabotage.kind == kind])


def fails_with(name: str, sabotaged: str) -> bool:
    """Whether the test `name` of a report may fail because `sabotaged` does.

    A method that was sabotaged in one class fails in every class that inherits it, also in those of
    other files; and a test fails with the parts that it reports one by one.
    """
    return _function_of(name) == _function_of(sabotaged)


class _Options(NamedTuple):
    path: str
    sabotages: list[Sabotage]

    def kinds(self) -> list[SabotageKind]:
        offered = {sabotage.kind for sabotage in self.sabotages}
        return [kind for kind in _KINDS if kind in offered]


def _by_test(options: Mapping[str, Sequence[Sabotage]]) -> list[_Options]:
    tests: dict[tuple[str, str], _Options] = {}
    for path, offered in options.items():
        for sabotage in offered:
            key = (path, _function_of(sabotage.test))
            test = tests.setdefault(key, _Options(path, []))
            test.sabotages.append(sabotage)
    return list(tests.values())


def _rarest(kinds: Sequence[SabotageKind], used: Sequence[SabotageKind]) -> SabotageKind:
    return min(kinds, key=used.count)


def _function_of(name: str) -> str:
    """The function, without what is around it, its parameters and subtests; all of a name that is a
    title."""
    match = _FUNCTION.fullmatch(name)
    return match[1] if match else name


def _language_of(path: str) -> _Language | None:
    if go_machine(path):
        return None
    return next((language for language in _LANGUAGES if language.files.fullmatch(path)), None)
