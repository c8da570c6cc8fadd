"""The text of an event for a person, read from the store: the sentence and the command that
`status` would show. None if there is nothing left to say: the question is answered, the hold is
gone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from pydantic_core import from_json

from shiftboss.protocol.events import EventKind
from shiftboss.protocol.notifications.settings import NotificationKind
from shiftboss.rules.notifications.kinds import (
    SIBLINGS_APART_MAX,
    EventFacts,
    is_absorbed,
    question_kind,
    siblings_of,
)
from shiftboss.rules.notifications.records import Content, Notification
from shiftboss.rules.runs.records import WHOLE_SWARM
from shiftboss.rules.tasks.permission_denials import DIAGNOSIS
from shiftboss.rules.tasks.tasks import Question
from shiftboss.rules.tasks.waiting import (
    Reason,
    failed_reason,
    hold_reason,
    question_reason,
    review_reason,
    scope_reason,
    short_text,
    stuck_claim_reason,
)
from shiftboss.store.port import Transaction
from shiftboss.system.logs import clean

NAMES_SHOWN_MAX: Final = 5
# More than any sentence of ours has; what agents write is cut before.
TEXT_CHARACTERS_MAX: Final = 1000
TITLE_CHARACTERS_MAX: Final = 200

_HEADS: Final[dict[NotificationKind, str]] = {
    "question": "Question",
    "escalation": "Escalation",
    "scope_request": "Scope request",
    "review": "Review",
    "dispute": "Dispute",
    "permission": "Permission denied",
    "budget": "Budget used up",
    "halt": "Work is halted",
    "ci_failed": "CI failed",
    "task_failed": "Failed",
    "run_finished": "Run finished",
    "verdict": "Verdict",
}


class _Said(NamedTuple):
    kind: NotificationKind
    reason: Reason
    review: str | None = None


class _Case(NamedTuple):
    tx: Transaction
    swarm_id: str
    event: EventFacts
    siblings: Sequence[EventFacts]

    @property
    def task_id(self) -> str | None:
        return self.event.data.get("bead_id") or None

    def why(self, kind: str, text: str) -> Reason:
        command = f"shiftboss status {self.swarm_id}"
        if self.task_id is not None:
            command = f"shiftboss why {self.task_id} --swarm {self.swarm_id}"
        return Reason(kind, self.task_id, text, command)


def notification_of(tx: Transaction, swarm_id: str, event_id: int) -> Notification | None:
    around = [
        EventFacts(event.event_id, event.kind, event.at_ms, from_json(event.data))
        for event in tx.events_after(
            swarm_id, max(event_id - SIBLINGS_APART_MAX - 1, 0), 2 * SIBLINGS_APART_MAX + 1
        )
    ]
    event = next((event for event in around if event.event_id == event_id), None)
    if event is None:
        return None  # older than the retention time
    siblings = siblings_of(event, around)
    handler = _HANDLERS.get(event.kind)
    if handler is None or is_absorbed(event, siblings):
        return None
    content = handler(_Case(tx, swarm_id, event, siblings))
    if content is None:
        return None
    return Notification(
        0, swarm_id, event_id, content.kind, event.at_ms, _content(swarm_id, content)
    )


def _content(swarm_id: str, said: _Said) -> Content:
    reason = said.reason
    subject = f"{reason.bead_id} in {swarm_id}" if reason.bead_id else swarm_id
    return Content(
        title=clean(f"{_HEADS[said.kind]}: {subject}")[:TITLE_CHARACTERS_MAX],
        text=clean(reason.text)[:TEXT_CHARACTERS_MAX],
        task_id=reason.bead_id,
        command=None if reason.command is None else clean(reason.command),
        also=tuple(map(clean, reason.also)),
        question_id=reason.question_id,
        review=said.review,
    )


def is_pointless(tx: Transaction, notification: Notification) -> bool:
    """Whether it has been answered or decided since."""
    content, swarm_id = notification.content, notification.swarm_id
    if content.question_id is not None:
        question = tx.question(swarm_id, content.question_id)
        return question is None or question.answered_at_ms is not None
    if content.review is not None and content.task_id is not None:
        review = tx.review(swarm_id, content.task_id)
        return review is None or review.state != "open" or review.commit_sha != content.review
    return False


def _question(case: _Case) -> _Said | None:
    number = case.event.data["question_id"]
    question = case.tx.question(case.swarm_id, number)
    if question is None or question.answered_at_ms is not None:
        return None
    kind = question_kind(case.siblings)
    if DIAGNOSIS in question.question:
        kind = "permission"
    reason = _reason_of(case, question, kind)
    return _Said(kind, reason._replace(question_id=number))


def _reason_of(case: _Case, question: Question, kind: NotificationKind) -> Reason:
    tx = case.tx
    if kind == "scope_request":
        request = tx.scope_request_of_question(case.swarm_id, question.question_id)
        if request is not None:
            return scope_reason(request)
    if kind == "budget":
        held = _budget(case)
        if held is not None:
            return held.reason
    claim = tx.last_claim(case.swarm_id, question.task_id)
    reason = question_reason(question, claim.refused_by if claim is not None else [])
    if kind == "halt":
        return _with_resume(case, reason)
    return reason


def _with_resume(case: _Case, reason: Reason) -> Reason:
    """The answer alone does not lift the halt."""
    halted = EventKind.CHAIN_HALTED.value
    halt_id = next(each.data["halt_id"] for each in case.siblings if each.kind == halted)
    also = tuple(command for command in (reason.command, *reason.also) if command)
    return reason._replace(command=_resume_command(halt_id), also=also)


def _resume_command(halt_id: int) -> str:
    return f"shiftboss resume {halt_id} --reason 'it is fixed'"


def _halt(case: _Case) -> _Said:
    data = case.event.data
    where = ", ".join(data["repos"][:NAMES_SHOWN_MAX]) or "its task"
    text = f"{where}: {short_text(data['reason'])}"
    return _Said("halt", Reason("halted", case.task_id, text, _resume_command(data["halt_id"])))


def _timeout(case: _Case) -> _Said:
    return _Said("escalation", case.why("timeout", short_text(str(case.event.data["message"]))))


def _accepted(case: _Case) -> _Said:
    text = f"claim {case.event.data['claim_id']} is accepted"
    task = f"{case.task_id} --swarm {case.swarm_id}"
    return _Said("verdict", case.why("claim", text)._replace(command=f"shiftboss diff {task}"))


def _refused(case: _Case) -> _Said:
    checks = dict.fromkeys(str(each["check"]) for each in case.event.data["violations"])
    text = f"claim {case.event.data['claim_id']} is refused"
    if checks:
        text += f" by {', '.join([*checks][:NAMES_SHOWN_MAX])}"
    return _Said("verdict", case.why("claim", text))


def _stuck_claim(case: _Case) -> _Said | None:
    assert case.task_id is not None, "a claim has a task"
    claim = case.tx.last_claim(case.swarm_id, case.task_id)
    if claim is None or claim.escalated_at_ms is None or claim.state != "waiting":
        return None
    return _Said("escalation", stuck_claim_reason(claim, case.tx.claim_passes(claim)))


def _review(case: _Case) -> _Said | None:
    assert case.task_id is not None, "a review has a task"
    review = case.tx.review(case.swarm_id, case.task_id)
    if review is None or review.state != "open":
        return None
    reason = review_reason(case.swarm_id, case.task_id, review.commit_sha)
    return _Said("review", reason, review.commit_sha)


def _budget(case: _Case) -> _Said | None:
    """The event of a swarm's budget may name the task whose report used it up."""
    exceeded = (event for event in (case.event, *case.siblings) if "scope" in event.data)
    scope = next((event.data["scope"] for event in exceeded), "task")
    task_id = WHOLE_SWARM if scope == "swarm" else case.task_id or WHOLE_SWARM
    holds = case.tx.holds_of_task(case.swarm_id, task_id)
    hold = next((each for each in holds if (each.task_id, each.kind) == (task_id, "budget")), None)
    if hold is None:
        return None
    budget = case.tx.budget(case.swarm_id, task_id)
    used = case.tx.usage_totals(case.swarm_id, task_id)
    return _Said("budget", hold_reason(hold, budget, used))


def _ci_failed(case: _Case) -> _Said:
    jobs = [f"{job['job']}: {job['message']}" for job in case.event.data["jobs"]]
    text = short_text("; ".join(jobs[:NAMES_SHOWN_MAX])) or "a job failed"
    return _Said("ci_failed", case.why("ci", text))


def _task_failed(case: _Case) -> _Said | None:
    """Not if it is tried again by itself, or was retried since."""
    task = None if case.task_id is None else case.tx.task(case.swarm_id, case.task_id)
    if case.event.data["again"] or task is None or task.status != "failed":
        return None
    # Without a worker the plan has to be run again, which the server cannot know here: `why` can.
    return _Said("task_failed", failed_reason(task, None, 1))


def _packet_failed(case: _Case) -> _Said | None:
    data = case.event.data
    if data["retry_scheduled"]:
        return None
    text = short_text(f"packet {data['packet_id']}: {data['message']}")
    return _Said("task_failed", case.why("failed", text))


def _finished(case: _Case) -> _Said | None:
    """`notify_on_complete` is what the creator of the swarm has asked for."""
    swarm = case.tx.swarm(case.swarm_id)
    if swarm is None or not swarm.notify_on_complete:
        return None
    counts = [
        f"{case.event.data[name]} {name}"
        for name in ("done", "failed", "cancelled")
        if case.event.data.get(name)
    ]
    text = f"all tasks are over: {', '.join(counts)}" if counts else "all packets are complete"
    return _Said("run_finished", case.why("finished", text))


_HANDLERS: Final[dict[str, Callable[[_Case], _Said | None]]] = {
    EventKind.QUESTION_ASKED.value: _question,
    EventKind.TIMEOUT_ESCALATED.value: _timeout,
    EventKind.CLAIM_ACCEPTED.value: _accepted,
    EventKind.CLAIM_REFUSED.value: _refused,
    EventKind.CLAIM_ESCALATED.value: _stuck_claim,
    EventKind.REVIEW_REQUESTED.value: _review,
    EventKind.BUDGET_EXCEEDED.value: _budget,
    EventKind.CI_FAILED.value: _ci_failed,
    EventKind.CHAIN_HALTED.value: _halt,
    EventKind.TASK_FAILED.value: _task_failed,
    EventKind.WORKER_ERROR.value: _packet_failed,
    EventKind.SWARM_COMPLETE.value: _finished,
}
