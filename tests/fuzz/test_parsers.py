"""Hostile input for every parser: our own errors or a result, in a bounded time, and no traceback.

More examples: `make fuzz`.
"""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shiftboss.errors import ShiftbossError
from tests.fuzz.hostile import EXAMPLES, PIECES, hostile
from tests.fuzz.targets import TARGETS, Target

pytestmark = [
    pytest.mark.requirement("SW-06"),
    pytest.mark.filterwarnings("ignore"),  # Python warns about escapes in the code that it parses
]

# Of the processor, not of the clock. A parser that is quadratic takes minutes for this much.
LONG_CHARACTERS = 30_000
CPU_SECONDS_MAX = 5.0
# What hostile input has found, by target.
FOUND = {
    "webhook: github": ["[" * 40_000, '{"a":' * 8_000],
    "webhook: forgejo": ["[" * 40_000],
    "issues": ['{"id":"bd-1","title":"A","status":["closed"]}'],
    "settings": ["9" * 5_000, '{"a": ' + "9" * 5_000 + "}"],
    "test report: jest": ['{"testResults":[{"assertionResults":[{"status":["passed"]}]}]}'],
    "hook: contract": [
        TARGETS["hook: contract"].seeds[0].replace('"handoff": {', f'"handoff": {{"a": {value},', 1)
        for value in ("NaN", '"\\ud800"')
    ],
    "hook: shell": ["${" * 20_000, "a=${b:-" * 5_000],
    "sabotage: a.rs": ["#[test]\n" * 4_000, "#[a]pub(" * 4_000],
}


def check(target: Target, text: str) -> None:
    started_at = time.thread_time()
    try:
        target.parse(text)
    except ShiftbossError:
        pass
    except target.refusals:
        pass
    seconds = time.thread_time() - started_at
    assert seconds < CPU_SECONDS_MAX, f"{len(text)} characters took {seconds:.1f} s"


# Nobody can write a valid one by hand: it is signed.
SIGNED = ("receipt", "envelope")


@pytest.mark.parametrize("name", [name for name in TARGETS if name not in SIGNED])
def test_the_first_seed_is_read(name: str) -> None:
    """Otherwise the hostile input is refused at its beginning, and reaches little."""
    TARGETS[name].parse(TARGETS[name].seeds[0])


@pytest.mark.parametrize("name", TARGETS)
def test_hostile_input_is_refused_or_read(name: str) -> None:
    target = TARGETS[name]

    @settings(max_examples=EXAMPLES)
    @given(hostile(target.seeds))
    def spoil(text: str) -> None:
        check(target, text)

    spoil()


@pytest.mark.parametrize("name", TARGETS)
def test_the_time_for_a_long_input_is_bounded(name: str) -> None:
    target = TARGETS[name]
    places = st.sampled_from((0, len(target.seeds[0]) // 2, len(target.seeds[0])))

    @settings(max_examples=EXAMPLES // 2)
    @given(st.sampled_from(PIECES), places)
    def pump(piece: str, place: int) -> None:
        seed = target.seeds[0]
        check(target, seed[:place] + piece * (LONG_CHARACTERS // len(piece)) + seed[place:])

    pump()


@pytest.mark.parametrize(("name", "text"), [(n, t) for n, texts in FOUND.items() for t in texts])
def test_input_that_was_found_is_refused_or_read(name: str, text: str) -> None:
    check(TARGETS[name], text)
