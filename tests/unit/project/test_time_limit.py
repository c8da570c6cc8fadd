"""A test that hangs is ended, wherever it hangs."""

from __future__ import annotations

import signal

from tests.conftest import AGAIN_SECONDS


def test_the_time_limit_interrupts_again() -> None:
    left, again = signal.getitimer(signal.ITIMER_REAL)
    assert left > 0
    assert again == AGAIN_SECONDS
