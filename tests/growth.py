"""Whether the time that a function takes grows in proportion to its input."""

from __future__ import annotations

import time
from collections.abc import Callable

CHARACTERS = 30_000
# Twice the input takes twice the time if it grows in proportion, and four times if it is quadratic.
# The rest is for the collector of garbage.
RATIO_MAX = 2.8
SHORT_SECONDS = 0.02


def assert_linear(text_of: Callable[[int], str], work: Callable[[str], object]) -> None:
    """`text_of` makes a text with about so many characters. The time is that of the processor, so
    that other processes do not matter."""
    short, long = text_of(CHARACTERS), text_of(2 * CHARACTERS)
    tries = []
    for _ in range(3):  # a busy machine has less of its caches for us
        seconds, doubled = _fastest(work, short), _fastest(work, long)
        tries.append((seconds, doubled))
        if doubled <= RATIO_MAX * seconds + SHORT_SECONDS:
            return
    raise AssertionError(tries)


def _fastest(work: Callable[[str], object], text: str) -> float:
    return min(_measure(work, text) for _ in range(3))


def _measure(work: Callable[[str], object], text: str) -> float:
    started = time.process_time()
    work(text)
    return time.process_time() - started
