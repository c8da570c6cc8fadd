"""Whether two sets of patterns overlap, with a path that both cover as the proof.

Two patterns are compared by a breadth-first search over pairs of positions, first by segments and
within a segment by characters. The path found is a shortest one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple, TypeVar

from shiftboss.rules.paths.patterns import ANY, Pattern, parents, pattern_of

# Used in the example path where any name would do.
_ANY_CHARACTER: Final = "x"
_ANY_SEGMENT: Final = "x"
# These cannot be segments of a path, so they prove nothing. A search keeps track of their prefixes.
_NOT_NAMES: Final = frozenset(("", ".", "..", ".git"))
_PREFIXES: Final = frozenset(("", ".", "..", ".g", ".gi", ".git"))

_State = TypeVar("_State")
# Each step leads to a state and appends text to the common path.
_Steps = Iterable[tuple[_State, str]]


class Overlap(NamedTuple):
    """Two patterns as written, and a path that both cover."""

    left: str
    right: str
    example: str


def overlaps(
    left: Sequence[str], right: Sequence[str], *, case_insensitive: bool = False
) -> list[Overlap]:
    """The left patterns that overlap a right one, each with the first one that it overlaps."""
    indexed = _IndexedPatterns(right, case_insensitive=case_insensitive)
    result = []
    for text in left:
        pattern = pattern_of(text, case_insensitive=case_insensitive)
        for index in indexed.candidates(pattern):
            example = _example(pattern, indexed.patterns[index])
            if example is not None:
                result.append(Overlap(text, right[index], example))
                break
    return result


class _IndexedPatterns:
    """Patterns with an index, because lists of a thousand files are compared with each other."""

    def __init__(self, texts: Sequence[str], *, case_insensitive: bool) -> None:
        self.patterns = [pattern_of(text, case_insensitive=case_insensitive) for text in texts]
        self._globs = [at for at, pattern in enumerate(self.patterns) if pattern.is_glob]
        self._named: dict[str, int] = {}
        self._below: dict[str, int] = {}
        for at, pattern in enumerate(self.patterns):
            if not pattern.is_glob:
                self._named.setdefault(pattern.name, at)
                for folder in parents(pattern.name):
                    self._below.setdefault(folder, at)

    def candidates(self, pattern: Pattern) -> Iterable[int]:
        """The indexes of the patterns that can overlap `pattern`."""
        if pattern.is_glob:
            return range(len(self.patterns))
        names = (pattern.name, *parents(pattern.name))
        plain = [self._named[name] for name in names if name in self._named]
        if pattern.name in self._below:
            plain.append(self._below[pattern.name])
        return [*plain, *self._globs]


def _example(left: Pattern, right: Pattern) -> str | None:
    if left.text == right.text and not left.is_glob:
        return left.name if not left.text.endswith("/") else f"{left.name}/{_ANY_SEGMENT}"
    one, other = left.segments, right.segments

    def steps(state: tuple[int, int]) -> _Steps[tuple[int, int]]:
        i, j = state
        if one[i : i + 1] == (ANY,):
            yield (i + 1, j), ""
        if other[j : j + 1] == (ANY,):
            yield (i, j + 1), ""
        if i < len(one) and j < len(other) and (one[i], other[j]) != (ANY, ANY):
            common = _common_segment(one[i], other[j])
            if common is not None:
                yield (i + (one[i] != ANY), j + (other[j] != ANY)), f"/{common}"

    path = _shortest((0, 0), steps, lambda state: state == (len(one), len(other)))
    return path.removeprefix("/") if path is not None else None


@lru_cache(maxsize=4096)
def _common_segment(one: str, other: str) -> str | None:
    """A name that both globs of one segment match. `**` matches any name."""
    one, other = ("*" if glob == ANY else glob for glob in (one, other))
    if not any(wildcard in one + other for wildcard in "*?"):
        return one if one == other else None

    def steps(state: tuple[int, int, str | None]) -> _Steps[tuple[int, int, str | None]]:
        i, j, prefix = state
        left, right = one[i : i + 1], other[j : j + 1]
        if left == "*":
            yield (i + 1, j, prefix), ""
        if right == "*":
            yield (i, j + 1, prefix), ""
        character = _common_character(left, right)
        if character is not None:
            longer = None if prefix is None else prefix + character.casefold()
            longer = longer if longer in _PREFIXES else None
            yield (i + (left != "*"), j + (right != "*"), longer), character

    start: tuple[int, int, str | None] = (0, 0, "")
    return _shortest(
        start,
        steps,
        lambda state: state[:2] == (len(one), len(other)) and state[2] not in _NOT_NAMES,
    )


def _common_character(one: str, other: str) -> str | None:
    if not one or not other:
        return None
    if one in "*?":
        return other if other not in "*?" else _ANY_CHARACTER
    return one if other in ("*", "?", one) else None


def _shortest(
    start: _State, steps: Callable[[_State], _Steps[_State]], is_end: Callable[[_State], bool]
) -> str | None:
    """The text along a shortest route from the start to an end, or None if there is no route."""
    came_from: dict[_State, tuple[_State, str] | None] = {start: None}
    queue = deque([start])
    while queue:
        state = queue.popleft()
        if is_end(state):
            return _route_text(came_from, state)
        for following, text in steps(state):
            if following not in came_from:
                came_from[following] = (state, text)
                queue.append(following)
    return None


def _route_text(came_from: dict[_State, tuple[_State, str] | None], end: _State) -> str:
    texts = []
    step = came_from[end]
    while step is not None:
        state, text = step
        texts.append(text)
        step = came_from[state]
    return "".join(reversed(texts))
