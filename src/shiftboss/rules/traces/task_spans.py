"""The spans of the tasks of a swarm, from its events: each is made by the event that ends it.

The same events always give the same spans, with the same ids. So a server can make them after the
commit, another server can make them again after a crash, and a collector gets one trace.
Events that are not there, because they are too old, leave spans out and break nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from shiftboss.protocol.events import Event, EventKind
from shiftboss.rules.traces import span as names
from shiftboss.rules.traces.open_tasks import Data, OpenAttempt, OpenTask, SpanStep, task_of
from shiftboss.rules.traces.span import Span, task_span

# Ends of attempts that are no failure: the work goes on in another one, or is not wanted.
_PEACEFUL_ENDS: Final = frozenset(
    {
        "done",
        "parked",
        "offer_taken_over",
        "taken_over",
        "run_ended",
        "returned",
        "retried",
        "cancelled",
        "reset",
    }
)

# Ends of tasks that do not go on. One that is accepted lands after it is done.
_LAST_KINDS: Final = frozenset(
    {
        EventKind.TASK_DONE.value,
        EventKind.TASK_LANDED.value,
        EventKind.WORKER_COMPLETE.value,
    }
)
# Of an agent's run. Who says more is mistaken, or lies.
_AGENT_RUN_MS_MAX: Final = 30 * 24 * 3600 * 1000


class SwarmSpans:
    """Give it the events of a swarm in their order."""

    def __init__(self, swarm_id: str) -> None:
        self._swarm_id = swarm_id
        self._tasks: dict[str, OpenTask] = {}

    def apply(self, event: Event, data: Data) -> list[Span]:
        """The spans that this event ends."""
        handle = _HANDLERS.get(event.kind)
        task_id = task_of(data)
        if handle is None or task_id is None:
            return []
        task = self._tasks.get(task_id)
        if task is None:
            task = self._tasks[task_id] = OpenTask()
        spans = handle(SpanStep(self._swarm_id, task_id, event, data, task))
        if event.kind in _LAST_KINDS and task.is_over:
            del self._tasks[task_id]
        return spans


# -- the queue


def _added(step: SpanStep) -> list[Span]:
    step.task.added_ms = step.at_ms
    return []


def _queued(step: SpanStep) -> list[Span]:
    step.task.queued = (step.at_ms, step.event.event_id)
    return _submitted(step)


def _submitted(step: SpanStep) -> list[Span]:
    """The root: from the moment that the task was added. One that a worker is free for is handed
    out without the queue."""
    task = step.task
    if task.submitted:
        return []
    task.submitted = True
    return [step.span("submit", (), step.at_ms if task.added_ms is None else task.added_ms)]


def _leaves_queue(step: SpanStep, result: str) -> list[Span]:
    if step.task.queued is None:
        return []
    since_ms, number = step.task.queued
    step.task.queued = None
    return [step.span("queue", ("queue", number), since_ms, result=result)]


def _withdrawn(step: SpanStep) -> list[Span]:
    return _leaves_queue(step, "withdrawn")


def _cancelled(step: SpanStep) -> list[Span]:
    return [*_leaves_queue(step, "cancelled"), *_attempt_ends(step, "cancelled")]


# -- attempts


def _assigned(step: SpanStep) -> list[Span]:
    spans = [*_submitted(step), *_leaves_queue(step, "assigned")]
    attempt = step.task.attempt
    if attempt is None or attempt.epoch != step.data["epoch"]:
        step.task.attempt = OpenAttempt(step.data["epoch"], step.data["worker"], step.at_ms)
    return spans


def _attempt_ends(step: SpanStep, result: str) -> list[Span]:
    task, attempt = step.task, step.task.attempt
    if attempt is None or step.data.get("epoch", attempt.epoch) != attempt.epoch:
        return []
    task.attempt, task.pushed_ms = None, None
    task.claims = {claim: at for claim, at in task.claims.items() if at[1] != attempt.epoch}
    span = step.span(
        "attempt",
        ("attempt", attempt.epoch),
        attempt.since_ms,
        attempt.epoch,
        error=None if result in _PEACEFUL_ENDS else result,
        worker=attempt.worker,
        result=result,
    )
    return [span]


def _done(step: SpanStep) -> list[Span]:
    return _attempt_ends(step, "done")


def _failed(step: SpanStep) -> list[Span]:
    return _attempt_ends(step, "failed")


def _ended(step: SpanStep) -> list[Span]:
    return _attempt_ends(step, step.data["reason"])


def _agent_ended(step: SpanStep) -> list[Span]:
    """By the conventions for generative AI: `gen_ai.usage.input_tokens` has the cached ones, too.
    The duration was measured beside the agent, whose clock may differ from the server's."""
    data = step.data
    agent, epoch, process = data["agent"], data["epoch"], data["process"]
    cached = data["cached_tokens"]
    ended = data["ended"]
    span = task_span(
        f"invoke_agent {agent}",
        (step.swarm_id, step.task_id),
        ("attempt", epoch, "agent", process),
        (step.at_ms - min(data["duration_ms"], _AGENT_RUN_MS_MAX), step.at_ms),
        epoch=epoch,
        attributes={
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": agent,
            "gen_ai.provider.name": data["provider"] or agent,
            "gen_ai.request.model": data["model"],
            "gen_ai.usage.input_tokens": data["input_tokens"] + cached,
            "gen_ai.usage.output_tokens": data["output_tokens"],
            "gen_ai.usage.cache_read.input_tokens": cached,
            names.DOLLARS: data["dollars"],
            names.WORKER: data["worker"],
            names.PROCESS: process,
            names.RESULT: ended,
        },
        error=ended if ended in _AGENT_ERRORS else None,
    )
    return [span]


_AGENT_ERRORS: Final = frozenset({"failed", "timeout", "denials", "permission", "quota", "budget"})


# -- what an attempt waits for


def _claimed(step: SpanStep) -> list[Span]:
    step.task.claims[step.data["claim_id"]] = (step.at_ms, step.data["epoch"])
    return []


def _verdict(step: SpanStep, result: str) -> list[Span]:
    claim_id = step.data["claim_id"]
    since_ms, epoch = step.task.claims.pop(claim_id, (None, step.data["epoch"]))
    if since_ms is None:
        return []
    span = step.span(
        "verify",
        ("claim", claim_id),
        since_ms,
        epoch,
        error="refused" if result == "refused" else None,
        claim_id=claim_id,
        claim=claim_id,
        commit=step.data.get("commit"),
        result=result,
    )
    return [span]


def _accepted(step: SpanStep) -> list[Span]:
    step.task.accepted_ms = step.at_ms
    return _verdict(step, "accepted")


def _refused(step: SpanStep) -> list[Span]:
    return _verdict(step, "refused")


def _milestone(step: SpanStep) -> list[Span]:
    if step.data["milestone"] == "PUSHED_TO_CI" and step.task.pushed_ms is None:
        step.task.pushed_ms = step.at_ms
    return []


def _ci_found(step: SpanStep) -> list[Span]:
    if step.task.pushed_ms is None:
        step.task.pushed_ms = step.at_ms
    return []


def _ci_ended(step: SpanStep, result: str) -> list[Span]:
    data, since_ms = step.data, step.task.pushed_ms
    if since_ms is None:
        return []
    step.task.pushed_ms = None
    span = step.span(
        "ci",
        ("ci", step.event.event_id),
        since_ms,
        data["epoch"],
        error="ci_failed" if result == "failed" else None,
        repo=data["repo"],
        commit=data["sha"],
        result=result,
    )
    return [span]


def _ci_passed(step: SpanStep) -> list[Span]:
    return _ci_ended(step, "passed")


def _ci_failed(step: SpanStep) -> list[Span]:
    return _ci_ended(step, "failed")


def _asked(step: SpanStep) -> list[Span]:
    step.task.questions[step.data["question_id"]] = (step.at_ms, step.data["epoch"])
    return []


def _question_ends(step: SpanStep, question_id: int, result: str) -> list[Span]:
    since_ms, epoch = step.task.questions.pop(question_id, (None, None))
    if since_ms is None:
        return []
    parts = ("question", question_id)
    return [step.span("question", parts, since_ms, epoch, question=question_id, result=result)]


def _answered(step: SpanStep) -> list[Span]:
    return _question_ends(step, step.data["question_id"], "answered")


def _withdrawn_questions(step: SpanStep) -> list[Span]:
    return [
        span
        for question_id, (_, epoch) in list(step.task.questions.items())
        if epoch == step.data["epoch"]
        for span in _question_ends(step, question_id, "withdrawn")
    ]


# -- after the work


def _review_requested(step: SpanStep) -> list[Span]:
    step.task.review_ms = step.at_ms
    return []


def _review_ends(step: SpanStep, result: str) -> list[Span]:
    task, since_ms = step.task, step.task.review_ms
    task.review_ms = None
    task.accepted_ms = step.at_ms if result == "approved" else None
    if since_ms is None:
        return []
    error = "rejected" if result == "rejected" else None
    return [
        step.span("review", ("review", step.event.event_id), since_ms, error=error, result=result)
    ]


def _approved(step: SpanStep) -> list[Span]:
    return _review_ends(step, "approved")


def _rejected(step: SpanStep) -> list[Span]:
    return _review_ends(step, "rejected")


def _landed(step: SpanStep) -> list[Span]:
    since_ms = step.task.accepted_ms
    step.task.accepted_ms = None
    if since_ms is None:
        return []
    commit = step.data["landed_commit"]
    return [step.span("land", ("land", step.event.event_id), since_ms, commit=commit)]


# -- packets


def _registered(step: SpanStep) -> list[Span]:
    epoch = step.data["attempt"]
    step.task.attempt = OpenAttempt(epoch, step.data["packet_name"], step.at_ms)
    return _submitted(step) if epoch == 1 else []


def _packet_error(step: SpanStep) -> list[Span]:
    return [] if step.data["retry_scheduled"] else _attempt_ends(step, "failed")


_HANDLERS: Final[dict[str, Callable[[SpanStep], list[Span]]]] = {
    EventKind.TASK_ADDED.value: _added,
    EventKind.TASK_QUEUED.value: _queued,
    EventKind.TASK_WITHDRAWN.value: _withdrawn,
    EventKind.TASK_CANCELLED.value: _cancelled,
    EventKind.TASK_ASSIGNED.value: _assigned,
    EventKind.TASK_STARTED.value: _assigned,
    EventKind.TASK_DONE.value: _done,
    EventKind.TASK_FAILED.value: _failed,
    EventKind.ATTEMPT_ENDED.value: _ended,
    EventKind.AGENT_RUN_ENDED.value: _agent_ended,
    EventKind.CLAIM_MADE.value: _claimed,
    EventKind.CLAIM_ACCEPTED.value: _accepted,
    EventKind.CLAIM_REFUSED.value: _refused,
    EventKind.MILESTONE_REPORTED.value: _milestone,
    EventKind.CI_RUN_FOUND.value: _ci_found,
    EventKind.CI_PASSED.value: _ci_passed,
    EventKind.CI_FAILED.value: _ci_failed,
    EventKind.QUESTION_ASKED.value: _asked,
    EventKind.QUESTION_ANSWERED.value: _answered,
    EventKind.QUESTIONS_WITHDRAWN.value: _withdrawn_questions,
    EventKind.REVIEW_REQUESTED.value: _review_requested,
    EventKind.REVIEW_APPROVED.value: _approved,
    EventKind.REVIEW_REJECTED.value: _rejected,
    EventKind.TASK_LANDED.value: _landed,
    EventKind.WORKER_REGISTERED.value: _registered,
    EventKind.WORKER_COMPLETE.value: _done,
    EventKind.WORKER_ERROR.value: _packet_error,
}

# The kinds that begin or end a span.
TRACED_KINDS: Final = tuple(_HANDLERS)
