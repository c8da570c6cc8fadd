"""The processes of a run are killed every few seconds: all work lands once, nothing is left behind.

The full test: `SHIFTBOSS_CHAOS_SECONDS=120 pytest tests/chaos/test_run_chaos.py -n0`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.run_checks import check_folders, check_landed, check_server
from tests.chaos.run_killer import KINDS, RunKiller
from tests.plan_runs import PlanProject
from tests.waiting import wait_until

SECONDS = float(os.environ.get("SHIFTBOSS_CHAOS_SECONDS", "25"))
IS_FULL = SECONDS >= 120
TASKS, WORKERS, WORK_SECONDS = (50, 8, 10.0) if IS_FULL else (12, 4, 1.5)
SEED = int(os.environ.get("SHIFTBOSS_CHAOS_SEED", "6"))
FINISH_SECONDS = 110.0 + SECONDS


@pytest.fixture
def run_killer(tmp_path: Path) -> Iterator[RunKiller]:
    run_killer = RunKiller(PlanProject(tmp_path), TASKS, WORKERS, WORK_SECONDS, SEED)
    try:
        yield run_killer
    finally:
        run_killer.close()


@pytest.mark.timeout(2 * FINISH_SECONDS)
@pytest.mark.requirement("OWN-01", "OWN-02", "CC-11")
def test_all_work_lands_once_and_nothing_is_left_whichever_process_is_killed(
    run_killer: RunKiller,
) -> None:
    run_killer.kill_for(SECONDS)
    run_killer.finish(FINISH_SECONDS)
    print(f"killed {dict(run_killer.killed)}")
    assert set(run_killer.killed) == set(KINDS) or not IS_FULL, "some kinds were never killed"
    assert sum(run_killer.killed.values()) > SECONDS / 5, "too few kills to prove anything"
    wait_until(
        lambda: not run_killer.left_over(), f"no process is left: {run_killer.left_over()}", 30
    )
    check_landed(run_killer)
    check_folders(run_killer.project)
    check_server(run_killer)
