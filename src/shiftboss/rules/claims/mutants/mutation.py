"""Mutations of a source text, and the order in which to try them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from random import Random
from typing import Final, Literal, NamedTuple

from shiftboss.rules.claims.source_text import TextEdit, apply_edits

MUTATIONS_MAX: Final = 200
# More changes at once would only make the report longer.
TOGETHER_MAX: Final = 20
CHANGE_CHARACTERS_MAX: Final = 80

Kind = Literal[
    "return",  # nothing is returned
    "opposite",  # a function that returns true or false returns the opposite
    "statement",  # a statement is removed
    "condition",  # a condition is negated
    "comparison",
    "boolean",  # `and` and `or`
    "arithmetic",
    "number",
    "flag",  # true and false
    "jump",  # `break` and `continue`
    "text",
    "boundary",  # `<` and `<=`: many tests look at neither side of a boundary
]
# Kinds that most tests of the line notice come first: few mutants fit into a short time.
_WEAKNESS: Final[Mapping[Kind, int]] = {
    "return": 0,
    "opposite": 0,
    "statement": 0,
    "condition": 1,
    "comparison": 1,
    "arithmetic": 1,
    "boolean": 2,
    "flag": 2,
    "number": 2,
    "jump": 2,
    "text": 3,
    "boundary": 4,
}
# Two of these in one function can cancel each other out. The others lose something for good.
_REVERSIBLE: Final[frozenset[Kind]] = frozenset(_WEAKNESS) - {"return", "statement"}


class Mutation(NamedTuple):
    """Replaces the characters from `start` to `end`. `change` describes it for people.

    `function` is the function around it, empty for the module itself.
    """

    line: int
    change: str
    start: int
    end: int
    replacement: str
    kind: Kind
    function: str = ""

    @property
    def edit(self) -> TextEdit:
        return TextEdit(self.start, self.end, self.replacement)


LocatedMutation = tuple[str, Mutation]  # the path of its file first


def mutated_files(
    texts: Mapping[str, str], mutations: Iterable[LocatedMutation]
) -> dict[str, bytes]:
    """The files with all of these mutations, which must not overlap."""
    edits: dict[str, list[TextEdit]] = {}
    for path, mutation in mutations:
        edits.setdefault(path, []).append(mutation.edit)
    return {path: apply_edits(texts[path], found).encode() for path, found in edits.items()}


def shortened(change: str) -> str:
    """One line, short enough for a table."""
    line = " ".join(change.split())
    if len(line) <= CHANGE_CHARACTERS_MAX:
        return line
    return line[: CHANGE_CHARACTERS_MAX - 3] + "..."


def choose_mutations(
    candidates: Mapping[str, Sequence[Mutation]], random: Random
) -> list[LocatedMutation]:
    """An order in which to try them: one of each line before the second of any line, and spread
    over files, functions and kinds."""
    pool = [(path, mutation) for path, found in candidates.items() for mutation in found]
    random.shuffle(pool)
    pool.sort(key=_weakness)
    pool = _in_turns(
        pool, lambda path, mutation: (path, mutation.function, mutation.kind), by=_weakness
    )
    pool = _in_turns(pool, lambda path, mutation: (path, mutation.line))
    pool = _in_turns(pool, lambda path, mutation: (path, mutation.function))
    pool = _in_turns(pool, lambda path, _: path)
    # Code outside of functions runs when the file is loaded: that its change breaks something says
    # little about the tests.
    pool.sort(key=lambda located: not located[1].function)
    # The turns of files and functions may have brought the second of a line forward.
    return _first_of_lines_first(pool)[:MUTATIONS_MAX]


def together(ordered: Sequence[LocatedMutation]) -> list[LocatedMutation]:
    """Mutations that can be made at once, without one undoing the other.

    A test that notices one of them notices all at once; so one run of tests that notices none shows
    that the tests look at none of these lines.
    """
    chosen: list[LocatedMutation] = []
    reversible: set[tuple[str, str]] = set()
    lines: set[tuple[str, int]] = set()
    for path, mutation in sorted(ordered, key=lambda located: located[1].kind in _REVERSIBLE):
        function = (path, mutation.function)
        is_reversible = mutation.kind in _REVERSIBLE
        if (path, mutation.line) in lines or (is_reversible and function in reversible):
            continue
        if mutation.kind == "boundary" or _overlaps(path, mutation, chosen):
            continue
        chosen.append((path, mutation))
        lines.add((path, mutation.line))
        if is_reversible:
            reversible.add(function)
        if len(chosen) == TOGETHER_MAX:
            break
    return chosen


def _weakness(located: LocatedMutation) -> int:
    return _WEAKNESS[located[1].kind]


def _in_turns(
    pool: Iterable[LocatedMutation],
    group: Callable[[str, Mutation], Hashable],
    by: Callable[[LocatedMutation], int] = lambda _: 0,
) -> list[LocatedMutation]:
    """The first of each group, then the second of each, and so on. `by` is added to the turn."""
    turns: Counter[Hashable] = Counter()
    placed = []
    for path, mutation in pool:
        key = group(path, mutation)
        placed.append((turns[key] + by((path, mutation)), (path, mutation)))
        turns[key] += 1
    placed.sort(key=lambda entry: entry[0])
    return [located for _, located in placed]


def _first_of_lines_first(pool: list[LocatedMutation]) -> list[LocatedMutation]:
    seen: set[tuple[str, int]] = set()
    first: list[LocatedMutation] = []
    others: list[LocatedMutation] = []
    for path, mutation in pool:
        (others if (path, mutation.line) in seen else first).append((path, mutation))
        seen.add((path, mutation.line))
    return first + others


def _overlaps(path: str, mutation: Mutation, chosen: Iterable[LocatedMutation]) -> bool:
    return any(
        path == other_path and mutation.start < other.end and other.start < mutation.end
        for other_path, other in chosen
    )
