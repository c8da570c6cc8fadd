"""Whether two sets of patterns overlap, with a path that both cover as the proof.

Two patterns are compared by a breadth-first search over pairs of positions, first by segments and
within a segment by characters. The path found is a shortest one. A search costs as many steps as it
visits pairs; `Work` limits them, because the server compares patterns while all writes wait.
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import chain, takewhile
from typing import Final, NamedTuple, TypeVar

from shiftboss.rules.paths.patterns import ANY, Pattern, pattern_of

# Used in the example path where any name would do.
_ANY_CHARACTER: Final = "x"
_ANY_SEGMENT: Final = "x"
_WILDCARDS: Final = re.compile(r"[*?]+")
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


class TooMuchWorkError(ValueError):
    """The patterns have too many wildcards to be compared."""


class Work:
    """Counts the steps of comparisons. Raises TooMuchWorkError beyond the limit."""

    def __init__(self, steps_max: float = math.inf) -> None:
        self.steps = 0
        self._steps_max = steps_max

    def spend(self, steps: int) -> None:
        self.steps += steps
        if self.steps > self._steps_max:
            raise TooMuchWorkError(f"more than {self._steps_max} steps")


def overlaps(
    left: Sequence[str],
    right: Sequence[str],
    *,
    case_insensitive: bool = False,
    work: Work | None = None,
) -> list[Overlap]:
    """The left patterns that overlap a right one, each with the first one that it overlaps. Raises
    TooMuchWorkError if `work` has a limit."""
    work = work or Work()
    indexed = _IndexedPatterns(right, case_insensitive=case_insensitive)
    result = []
    for text in left:
        pattern = pattern_of(text, case_insensitive=case_insensitive)
        for index in indexed.candidates(pattern):
            work.spend(1)
            example = _example(pattern, indexed.patterns[index], work)
            if example is not None:
                result.append(Overlap(text, right[index], example))
                break
    return result


class _IndexedPatterns:
    """Patterns by the folders that they begin with, because lists of a thousand are compared with
    each other. Two can overlap only if these folders are the same, or some of the other's."""

    def __init__(self, texts: Sequence[str], *, case_insensitive: bool) -> None:
        self.patterns = [pattern_of(text, case_insensitive=case_insensitive) for text in texts]
        self._at: dict[tuple[str, ...], list[int]] = {}
        self._below: dict[tuple[str, ...], list[int]] = {}
        for index, pattern in enumerate(self.patterns):
            folders = _fixed_segments(pattern)
            self._at.setdefault(folders, []).append(index)
            for length in range(len(folders)):
                self._below.setdefault(folders[:length], []).append(index)

    def candidates(self, pattern: Pattern) -> Iterable[int]:
        """The indexes of the patterns that can overlap `pattern`, in their order."""
        folders = _fixed_segments(pattern)
        above = [self._at.get(folders[:length], []) for length in range(len(folders) + 1)]
        return sorted(chain(self._below.get(folders, []), *above))


def _fixed_segments(pattern: Pattern) -> tuple[str, ...]:
    return tuple(takewhile(lambda segment: not _WILDCARDS.search(segment), pattern.segments))


def _example(left: Pattern, right: Pattern, work: Work) -> str | None:
    if left.text == right.text and not left.is_glob:
        return left.name if not left.text.endswith("/") else f"{left.name}/{_ANY_SEGMENT}"
    one, other = left.segments, right.segments
    if not (_begin_alike(one, other) and _begin_alike(one[::-1], other[::-1])):
        return None

    def steps(state: tuple[int, int]) -> _Steps[tuple[int, int]]:
        i, j = state
        if one[i : i + 1] == (ANY,):
            yield (i + 1, j), ""
        if other[j : j + 1] == (ANY,):
            yield (i, j + 1), ""
        if i < len(one) and j < len(other) and (one[i], other[j]) != (ANY, ANY):
            common, steps_taken = _common_segment(one[i], other[j])
            work.spend(steps_taken)
            if common is not None:
                yield (i + (one[i] != ANY), j + (other[j] != ANY)), f"/{common}"

    path, steps_taken = _shortest((0, 0), steps, lambda state: state == (len(one), len(other)))
    work.spend(steps_taken)
    return path.removeprefix("/") if path is not None else None


def _begin_alike(one: Sequence[str], other: Sequence[str]) -> bool:
    """False if a segment before the first `**` tells the patterns apart, which is cheap to see and
    true of most pairs. With the segments reversed: behind the last `**`."""
    for left, right in zip(one, other, strict=False):
        if ANY in (left, right):
            return True
        if not _may_match_one_name(left, right):
            return False
    return True


def _may_match_one_name(left: str, right: str) -> bool:
    before, after = _fixed_ends(left)
    other_before, other_after = _fixed_ends(right)
    return (before.startswith(other_before) or other_before.startswith(before)) and (
        after.endswith(other_after) or other_after.endswith(after)
    )


@lru_cache(maxsize=4096)
def _fixed_ends(glob: str) -> tuple[str, str]:
    """The text before the first wildcard, and the text after the last one."""
    parts = _WILDCARDS.split(glob)
    return parts[0], parts[-1]


@lru_cache(maxsize=4096)
def _common_segment(one: str, other: str) -> tuple[str | None, int]:
    """A name that both globs of one segment match, and the steps that it took to find it. `**`
    matches any name."""
    one, other = ("*" if glob == ANY else glob for glob in (one, other))
    if not any(wildcard in one + other for wildcard in "*?"):
        return (one if one == other else None), 1
    if not _may_match_one_name(one, other):
        return None, 1

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
) -> tuple[str | None, int]:
    """The text along a shortest route from the start to an end, or None if there is no route; and
    the number of states seen."""
    came_from: dict[_State, tuple[_State, str] | None] = {start: None}
    queue = deque([start])
    while queue:
        state = queue.popleft()
        if is_end(state):
            return _route_text(came_from, state), len(came_from)
        for following, text in steps(state):
            if following not in came_from:
                came_from[following] = (state, text)
                queue.append(following)
    return None, len(came_from)


def _route_text(came_from: dict[_State, tuple[_State, str] | None], end: _State) -> str:
    texts = []
    step = came_from[end]
    while step is not None:
        state, text = step
        texts.append(text)
        step = came_from[state]
    return "".join(reversed(texts))
