"""Whether two sets of patterns have a path in common. Decided, with such a path as the proof."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple, TypeVar

from shiftboss.rules.paths.patterns import ANY, Pattern, parents, pattern_of

# What stands where any name would do.
_ANY_LETTER: Final = "x"
_ANY_SEGMENT: Final = "x"
# A segment that is one of these is none, so they prove nothing; the beginnings lead to them.
_NOT_NAMES: Final = frozenset(("", ".", "..", ".git"))
_BEGINNINGS: Final = frozenset(("", ".", "..", ".g", ".gi", ".git"))

_State = TypeVar("_State")
# A way on: the state that it leads to, and what the common path gets by it.
_Steps = Iterable[tuple[_State, str]]


class Overlap(NamedTuple):
    """Two patterns, as they were written, and a path that both cover."""

    left: str
    right: str
    example: str


def overlaps(
    left: Sequence[str], right: Sequence[str], *, case_insensitive: bool = False
) -> list[Overlap]:
    """The patterns on the left that overlap with the right, each with the first that it meets."""
    theirs = _Patterns(right, case_insensitive=case_insensitive)
    found = []
    for text in left:
        mine = pattern_of(text, case_insensitive=case_insensitive)
        for number in theirs.candidates(mine):
            example = _example(mine, theirs.patterns[number])
            if example is not None:
                found.append(Overlap(text, right[number], example))
                break
    return found


class _Patterns:
    """Patterns with an index, for a list of a thousand files is compared with another one."""

    def __init__(self, texts: Sequence[str], *, case_insensitive: bool) -> None:
        self.patterns = [pattern_of(one, case_insensitive=case_insensitive) for one in texts]
        self._globs = [at for at, one in enumerate(self.patterns) if one.is_glob]
        self._named: dict[str, int] = {}
        self._below: dict[str, int] = {}
        for at, one in enumerate(self.patterns):
            if not one.is_glob:
                self._named.setdefault(one.name, at)
                for above in parents(one.name):
                    self._below.setdefault(above, at)

    def candidates(self, mine: Pattern) -> Iterable[int]:
        if mine.is_glob:
            return range(len(self.patterns))
        names = (mine.name, *parents(mine.name))
        plain = [self._named[one] for one in names if one in self._named]
        if mine.name in self._below:
            plain.append(self._below[mine.name])
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

    words = _way((0, 0), steps, lambda state: state == (len(one), len(other)))
    return words.removeprefix("/") if words is not None else None


@lru_cache(maxsize=4096)
def _common_segment(one: str, other: str) -> str | None:
    """A name that two globs of one segment have in common; `**` takes any."""
    one, other = ("*" if glob == ANY else glob for glob in (one, other))
    if not any(letter in one + other for letter in "*?"):
        return one if one == other else None

    def steps(state: tuple[int, int, str | None]) -> _Steps[tuple[int, int, str | None]]:
        i, j, beginning = state
        mine, theirs = one[i : i + 1], other[j : j + 1]
        if mine == "*":
            yield (i + 1, j, beginning), ""
        if theirs == "*":
            yield (i, j + 1, beginning), ""
        letter = _common_letter(mine, theirs)
        if letter is not None:
            now = None if beginning is None else beginning + letter.casefold()
            now = now if now in _BEGINNINGS else None
            yield (i + (mine != "*"), j + (theirs != "*"), now), letter

    start: tuple[int, int, str | None] = (0, 0, "")
    return _way(
        start,
        steps,
        lambda state: state[:2] == (len(one), len(other)) and state[2] not in _NOT_NAMES,
    )


def _common_letter(one: str, other: str) -> str | None:
    if not one or not other:
        return None
    if one in "*?":
        return other if other not in "*?" else _ANY_LETTER
    return one if other in ("*", "?", one) else None


def _way(
    start: _State, steps: Callable[[_State], _Steps[_State]], is_end: Callable[[_State], bool]
) -> str | None:
    """The words along a shortest way from the start to an end. None: there is no way."""
    came_from: dict[_State, tuple[_State, str] | None] = {start: None}
    waiting = deque([start])
    while waiting:
        state = waiting.popleft()
        if is_end(state):
            return _words(came_from, state)
        for after, word in steps(state):
            if after not in came_from:
                came_from[after] = (state, word)
                waiting.append(after)
    return None


def _words(came_from: dict[_State, tuple[_State, str] | None], end: _State) -> str:
    words = []
    step = came_from[end]
    while step is not None:
        state, word = step
        words.append(word)
        step = came_from[state]
    return "".join(reversed(words))
