"""The kit and bus workers: a correct one passes, and every defect is caught by its check."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from shiftboss.conformance.checks import Result
from shiftboss.conformance.worker.harness import WaitLimits
from shiftboss.conformance.worker.profiles import BUS_CHECKS, WorkerKit
from tests.acceptance.conformance.kit_server import KitServer
from tests.acceptance.conformance.scripted_workers import ScriptedBusWorker, ScriptedMcpWorker

pytestmark = pytest.mark.requirement("OWN-10")

# A check that fails waits this long for what does not come; on a busy machine, the rest takes time.
LIMITS = WaitLimits(4)

# The check that catches a defect, and a part of the reason that it gives.
DEFECTS = {
    "never registers": ("registers", "its first call is poll_task"),
    "polls twice": ("polls", "2 polls of one worker are open"),
    "registers for every poll": ("polls-again", "registered again"),
    "never acknowledges": ("acknowledges", "worker_done, not ack_task"),
    "reports before ack": ("acknowledges", "worker_done, not ack_task"),
    "reports twice": ("reports-done", "2 reports on one task"),
    "gives no reason": ("reports-failed", "the reason is ''"),
    "stops after one task": ("polls-after-task", "the worker ended with exit code 0"),
    "does anything": ("unknown-task", "it was reported done"),
    "sends no heartbeats": ("heartbeats", "3 heartbeats"),
    "dies on 503": ("busy-503", "DiedError: 503"),
    "impatient": ("busy-429", "and Retry-After was 1 s"),
    "dies on html": ("bad-gateway", "DiedError: not JSON"),
    "dies when a poll is cut": ("poll-lost", "DiedError"),
    "never repeats": ("report-repeated", "not seen within"),
    "new keys": ("same-key", "the key of the repeat is"),
    "works after a refused ack": ("ack-refused", "whose acknowledgement was refused"),
    "insists": ("cancelled", "worker_done, task_failed"),
    "names no epoch": ("lost-task", "does not name its epoch"),
    "dies without a server": ("restart", "DiedError"),
    "never registers again": ("forgotten", "register_worker after the restart: not seen"),
    "ignores the answer": ("asks", "did not follow the answer"),
    "hands over nothing": ("hands-over", "has no current_step, files_created"),
}
# Found in what was recorded during another check.
RECORDED = {
    "changes its mind": ("one-outcome", "reported done and failed"),
    "wrong epoch": ("epochs", "names epoch 2, and the delivery had 1"),
}


@pytest.fixture(scope="module")
def kit_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KitServer]:
    server = KitServer(tmp_path_factory.mktemp("kit"))
    try:
        yield server.start()
    finally:
        server.close()


def run(
    server: KitServer,
    folder: Path,
    defect: str,
    *only: str,
    limits: WaitLimits = LIMITS,
    kind: type[ScriptedBusWorker] = ScriptedBusWorker,
) -> dict[str, Result]:
    def start(environment: Mapping[str, str], _folder: Path) -> ScriptedBusWorker:
        return kind(defect, environment)

    results = WorkerKit(start, server, folder, limits).run("bus", only)
    return {result.check.name: result for result in results}


def test_a_correct_worker_passes_every_check(kit_server: KitServer, tmp_path: Path) -> None:
    results = run(kit_server, tmp_path, "none", limits=WaitLimits(20))
    assert [(name, one.outcome, one.reason) for name, one in results.items()] == [
        (check.name, "holds", "") for check in BUS_CHECKS
    ]


def test_a_worker_with_mcp_tools_passes_every_check(kit_server: KitServer, tmp_path: Path) -> None:
    # The others take seconds, and are about what is the same over MCP.
    only = [check.name for check in BUS_CHECKS if check.name not in ("busy-503", "heartbeats")]
    results = run(
        kit_server, tmp_path, "none", *only, limits=WaitLimits(20), kind=ScriptedMcpWorker
    )
    assert [(name, one.outcome, one.reason) for name, one in results.items()] == [
        (name, "holds", "") for name in only
    ]


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_defect_is_caught_by_the_check_that_names_it(
    kit_server: KitServer, tmp_path: Path, defect: str
) -> None:
    check, reason = DEFECTS[defect]
    result = run(kit_server, tmp_path, defect, check)[check]
    assert (result.outcome, result.is_failure) == ("broken", True), result
    assert reason in result.reason
    assert result.wire, "it shows what was seen"


@pytest.mark.parametrize("defect", RECORDED)
def test_a_defect_is_found_in_the_record(
    kit_server: KitServer, tmp_path: Path, defect: str
) -> None:
    check, reason = RECORDED[defect]
    result = run(kit_server, tmp_path, defect, "reports-done", check)[check]
    assert result.outcome == "broken", result
    assert reason in result.reason


def test_every_check_has_a_worker_that_it_catches() -> None:
    caught = {check for check, _ in (DEFECTS | RECORDED).values()}
    # The same mistakes as those of poll-lost: it is about the delivery that the lost poll carried.
    assert {check.name for check in BUS_CHECKS} - caught == {"delivered-again"}
