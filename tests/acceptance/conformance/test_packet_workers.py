"""The kit and packet workers: a correct one passes, and every defect is caught by its check."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from shiftboss.conformance.checks import Result
from shiftboss.conformance.worker.harness import WaitLimits
from shiftboss.conformance.worker.profiles import PACKET_CHECKS, WorkerKit
from tests.acceptance.conformance.scripted_packets import ScriptedPacketWorker
from tests.running import RunningServer

pytestmark = pytest.mark.requirement("OWN-10")

LIMITS = WaitLimits(4)

# The check that catches a defect, and a part of the reason that it gives.
DEFECTS = {
    "does not register": ("packet-registers", "its first report is progress"),
    "skips a task": ("packet-progress", "['task-1', 'task-3'] completed"),
    "counts wrong": ("packet-counter", "tasks_completed is 2, not 1"),
    "never completes": ("packet-completes", "its last report is progress"),
    "calls first": ("checkpoint-first", "there was no checkpoint file when register arrived"),
    "local time": ("checkpoint-fields", "not in UTC with its offset"),
    "cleans up too early": ("checkpoint-kept", "the checkpoint is None"),
    "never cleans up": ("checkpoint-removed", "the checkpoint file is still there"),
    "everything is recoverable": ("error-final", "'recoverable': False}"),
    "nothing is recoverable": ("error-recoverable", "'recoverable': True}"),
    "dies without a server": ("server-down", "complete of the packet: not seen"),
    "dies on 503": ("server-errors", "complete of the packet: not seen"),
    "new keys": ("answer-lost", "not repeated with its key"),
    "starts over": ("recovers", "did the first task again"),
    # It waits for the server, which is allowed: this check is a recommendation.
    "none": ("goes-on", "work on the next task while the server is down"),
}


def run(
    server: RunningServer, folder: Path, defect: str, *only: str, limits: WaitLimits = LIMITS
) -> dict[str, Result]:
    def start(environment: Mapping[str, str], _folder: Path) -> ScriptedPacketWorker:
        return ScriptedPacketWorker(defect, environment)

    kit = WorkerKit(start, ServedElsewhere(server), folder, limits)
    return {result.check.name: result for result in kit.run("packet", only)}


class ServedElsewhere:
    """A server that these checks do not kill."""

    def __init__(self, server: RunningServer) -> None:
        self.url = server.url

    def start(self) -> None:
        raise AssertionError

    def kill(self) -> None:
        raise AssertionError

    def forget(self) -> None:
        raise AssertionError


def test_a_correct_worker_passes_every_required_check(
    shared_server: RunningServer, tmp_path: Path
) -> None:
    required = [check.name for check in PACKET_CHECKS if check.required]
    results = run(shared_server, tmp_path, "none", *required, limits=WaitLimits(20))
    assert [(name, one.outcome, one.reason) for name, one in results.items()] == [
        (name, "holds", "") for name in required
    ]


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_defect_is_caught_by_the_check_that_names_it(
    shared_server: RunningServer, tmp_path: Path, defect: str
) -> None:
    check, reason = DEFECTS[defect]
    result = run(shared_server, tmp_path, defect, check)[check]
    assert result.outcome == "broken", result
    assert result.is_failure == (defect != "none")
    assert reason in result.reason


def test_every_check_has_a_worker_that_it_catches() -> None:
    assert {check.name for check in PACKET_CHECKS} == {check for check, _ in DEFECTS.values()}
