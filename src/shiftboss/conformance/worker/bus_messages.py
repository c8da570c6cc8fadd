"""The messages of a bus worker: what holds over all that it has sent, questions, and handing over
a full context."""

from __future__ import annotations

from typing import Final

from shiftboss.conformance.checks import Broken, CheckList, NotOffered
from shiftboss.conformance.exchanges import Exchange
from shiftboss.conformance.worker.bus_harness import BusHarness, report_of

MESSAGES: Final[CheckList[BusHarness]] = CheckList()

ANSWER: Final = "fail use the staging database"
CHECKPOINT_MEMBERS: Final = frozenset(
    {"task_id", "current_step", "files_created", "files_modified", "checkpoint_ready"}
)

RECORD: Final[CheckList[BusHarness]] = CheckList()


@MESSAGES.add("asks", "002", "WP-07", "Blocked, it asks, and continues after the answer")
def asks(harness: BusHarness) -> None:
    position = harness.idle()
    bead_id = harness.submit("ask Which database?")
    sent = _message_or_report(harness, bead_id, position, "blocked")
    if "Which database?" not in str(sent.payload):
        raise Broken(f"the question is not in the message: {sent.payload}")
    question_id = (sent.answer or {}).get("question_id")
    harness.operator("answer_question", question_id=question_id, answer=ANSWER)
    report = harness.report_on(bead_id, position)
    if (report.outcome, report.reason) != ("failed", ANSWER.removeprefix("fail ")):
        raise Broken(f"it did not follow the answer {ANSWER!r}: {report.outcome} {report.reason}")


@MESSAGES.add("hands-over", "002", "WP-06", "At 70% context it hands the task over and stops")
def hands_over(harness: BusHarness) -> None:
    position = harness.idle()
    bead_id = harness.submit("context 0.7")
    sent = _message_or_report(harness, bead_id, position, "context_threshold")
    missing = CHECKPOINT_MEMBERS - sent.payload.keys()
    if missing:
        raise Broken(f"the checkpoint has no {', '.join(sorted(missing))}")
    if harness.reports_of(bead_id, position)[:-1]:
        raise Broken("it reported the task that it has handed over")
    report = harness.report_on(bead_id, position)
    acks = [
        exchange for exchange in harness.since(position, "ack_task") if exchange.bead_id == bead_id
    ]
    if len(acks) < 2 or report.outcome != "done":
        raise Broken(f"the task was not taken over and finished: {report.outcome} {report.reason}")


def _message_or_report(harness: BusHarness, bead_id: str, position: int, kind: str) -> Exchange:
    """The message, answered. A worker that fails the task instead does not offer it."""

    def found() -> Exchange | None:
        for exchange in harness.proxy.exchanges[position:]:
            if exchange.message.get("type") == kind and exchange.is_final:
                return exchange
        reports = harness.reports_of(bead_id, position)
        return next((report.exchange for report in reports if report.exchange.is_final), None)

    seen = harness.wait(f"a message {kind}", found)
    report = report_of(seen)
    if report is not None:
        outcome = f"{report.outcome}: {report.reason}"
        raise NotOffered(f"it sends no message {kind}, and reports the task {outcome}")
    if not seen.is_success:
        raise Broken(f"the message {kind} was refused: {seen.answer}")
    return seen


@RECORD.add("one-outcome", "001", "BUS-06", "No task was reported both done and failed")
def one_outcome(harness: BusHarness) -> None:
    outcomes: dict[tuple[str | None, object], str] = {}
    for exchange in harness.proxy.exchanges:
        report = report_of(exchange)
        if report is None:
            continue
        attempt = exchange.bead_id, exchange.arguments.get("epoch") or exchange.payload.get("epoch")
        if outcomes.setdefault(attempt, report.outcome) != report.outcome:
            raise Broken(f"{exchange.bead_id}: reported {outcomes[attempt]} and {report.outcome}")
    if not outcomes:
        raise Broken("no task was reported at all")


@RECORD.add("epochs", "own", "BUS-09", "Calls about a task name the epoch of its delivery")
def epochs(harness: BusHarness) -> None:
    given: dict[str, int] = {}
    is_named = False
    for exchange in harness.proxy.exchanges:
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
