"""The choice of the core that a server runs on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from shiftboss.server.fast_path.core_affinity import (
    _seconds_used,
    choose,
    nearest_core,
    usable_cores,
)

CORES = usable_cores()
BURNED_SECONDS = 0.3
BURN = """
import os, sys, time
os.sched_setaffinity(0, {int(sys.argv[1])})
while time.process_time() < float(sys.argv[2]): pass
"""


@pytest.mark.parametrize(
    ("others", "core", "best", "chosen"),
    [
        pytest.param({0: 0.0, 1: 0.1}, 1, 1, 1, id="it stays on the best one"),
        pytest.param({0: 0.0, 1: 0.9}, 1, 1, 0, id="one that others need is left"),
        pytest.param({0: 0.0, 1: 0.1}, 0, 1, 1, id="it comes back to the best one"),
        pytest.param({0: 0.0, 1: 0.1}, 0, None, 0, id="which must have been free for a while"),
        pytest.param({0: 0.0, 1: 0.9}, 0, 1, 0, id="and still be"),
        pytest.param({0: 0.9, 1: 0.8, 2: 0.7}, 0, 1, 2, id="all are needed: the least"),
        pytest.param({0: 0.5, 1: 0.0}, 0, None, 1, id="none is best: it leaves a needed one"),
        pytest.param({0: 0.0, 1: 0.1}, None, 1, 1, id="it was everywhere: the best"),
        pytest.param({0: 0.0, 1: 0.5}, None, 1, 0, id="it was everywhere: a free one"),
    ],
)
def test_the_choice_of_a_core(
    others: dict[int, float], core: int | None, best: int | None, chosen: int
) -> None:
    assert choose(others, core, best) == chosen


@pytest.mark.skipif(len(CORES) < 2, reason="there is no second core, or cores cannot be chosen")
def test_after_the_measurement_all_cores_are_usable_again(tmp_path: Path) -> None:
    assert nearest_core(tmp_path, CORES) in CORES
    assert os.sched_getaffinity(0) == CORES
    assert [*tmp_path.iterdir()] == []


def test_nothing_is_measured_without_a_folder_or_a_second_core(tmp_path: Path) -> None:
    assert nearest_core(tmp_path / "not there yet", CORES) is None
    assert nearest_core(tmp_path, frozenset({0})) is None


@pytest.mark.skipif(not CORES, reason="a program cannot choose its core")
def test_usage_by_others_is_counted_and_usage_by_the_server_is_not() -> None:
    core = max(CORES)
    used_before, own_before = _seconds_used()
    subprocess.run([sys.executable, "-c", BURN, str(core), str(BURNED_SECONDS)], check=True)
    used, own = _seconds_used()
    # It is counted in hundredths of a second.
    assert used[core] - used_before[core] >= BURNED_SECONDS * 0.8
    assert own - own_before < BURNED_SECONDS
