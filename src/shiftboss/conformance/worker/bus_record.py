"""What holds over everything that the worker has sent."""

from __future__ import annotations

from typing import Final

from shiftboss.conformance.checks import Broken, CheckList, NotOffered
from shiftboss.conformance.worker.bus_bench import BusBench, report_of

RECORD: Final[CheckList[BusBench]] = CheckList()


@RECORD.add("one-outcome", "001", "BUS-06", "No task was reported both done and failed")
def one_outcome(bench: BusBench) -> None:
    outcomes: dict[tuple[str | None, object], str] = {}
    for exchange in bench.proxy.exchanges:
        report = report_of(exchange)
        if report is None:
            continue
        attempt = exchange.bead_id, exchange.arguments.get("epoch") or exchange.payload.get("epoch")
        if outcomes.setdefault(attempt, report.outcome) != report.outcome:
            raise Broken(f"{exchange.bead_id}: reported {outcomes[attempt]} and {report.outcome}")
    if not outcomes:
        raise Broken("no task was reported at all")


@RECORD.add("epochs", "own", "BUS-09", "Calls about a task name the epoch of its delivery")
def epochs(bench: BusBench) -> None:
    given: dict[str, int] = {}
    is_named = False
    for exchange in bench.proxy.exchanges:
        if exchange.operation == "poll_task" and exchange.is_delivered and exchange.given_task:
            given[exchange.given_task["bead_id"]] = exchange.given_task["epoch"]
        named = exchange.arguments.get("epoch") or exchange.payload.get("epoch")
        if named is None or exchange.bead_id not in given:
            continue
        is_named = True
        if named != given[exchange.bead_id]:
            raise Broken(
                f"{exchange.operation} for {exchange.bead_id} names epoch {named}, and the "
                f"delivery had {given[exchange.bead_id]}"
            )
    if not is_named:
        raise NotOffered("its calls name no epoch")
