"""The spans of a task, from its events."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shiftboss.protocol.claims.verdicts import CheckResult, Verdict
from shiftboss.protocol.events import Event, EventKind
from shiftboss.protocol.trace_ids import attempt_span_id_of, span_id_of, trace_id_of
from shiftboss.rules.claims.claims import Claim
from shiftboss.rules.traces.span import Span
from shiftboss.rules.traces.task_spans import SwarmSpans
from shiftboss.rules.traces.verification_spans import with_checks

pytestmark = pytest.mark.requirement("OWN-08")

SWARM = "login"
ATTEMPT = {"bead_id": "t1", "worker": "w", "epoch": 3}
TASK = {"bead_id": "t1"}
ASSIGNED = (EventKind.TASK_ASSIGNED, ATTEMPT)


def spans_of(*events: tuple[EventKind, dict[str, Any]]) -> list[Span]:
    """The events have the times 1000, 2000 ... milliseconds."""
    swarm = SwarmSpans(SWARM)
    return [
        span
        for number, (kind, data) in enumerate(events, 1)
        for span in swarm.apply(
            Event(SWARM, number, kind.value, number * 1000, json.dumps(data)), data
        )
    ]


def shown(spans: list[Span]) -> list[tuple[str, int, int, object]]:
    results = [span.attributes.get("shiftboss.result") for span in spans]
    return [
        (span.name, span.start_ms, span.end_ms, result)
        for span, result in zip(spans, results, strict=True)
    ]


def test_the_ids_follow_from_the_names_alone() -> None:
    submit, queue, attempt = spans_of(
        (EventKind.TASK_ADDED, TASK),
        (EventKind.TASK_QUEUED, TASK),
        ASSIGNED,
        (EventKind.TASK_DONE, ATTEMPT),
    )
    assert {span.trace_id for span in (submit, queue, attempt)} == {trace_id_of(SWARM, "t1")}
    assert (submit.span_id, submit.parent_id) == (span_id_of(SWARM, "t1"), None)
    assert attempt.span_id == attempt_span_id_of(SWARM, "t1", 3)
    assert queue.parent_id == attempt.parent_id == submit.span_id


def test_a_task_waits_in_the_queue_until_it_is_handed_out() -> None:
    spans = spans_of(
        (EventKind.TASK_ADDED, TASK),
        (EventKind.TASK_QUEUED, TASK),
        ASSIGNED,
        (EventKind.TASK_STARTED, ATTEMPT),
        (EventKind.ATTEMPT_ENDED, {**ATTEMPT, "reason": "lease_expired"}),
        (EventKind.TASK_QUEUED, TASK),
        (EventKind.TASK_CANCELLED, TASK),
    )
    assert shown(spans) == [
        ("submit", 1000, 2000, None),
        ("queue", 2000, 3000, "assigned"),
        ("attempt", 3000, 5000, "lease_expired"),
        ("queue", 6000, 7000, "cancelled"),
    ]
    assert [span.error for span in spans] == [None, None, "lease_expired", None]


@pytest.mark.parametrize("reason", ["returned", "taken_over", "run_ended", "parked", "retried"])
def test_an_attempt_whose_work_goes_on_elsewhere_is_no_error(reason: str) -> None:
    spans = spans_of(ASSIGNED, (EventKind.ATTEMPT_ENDED, {**ATTEMPT, "reason": reason}))
    assert shown(spans)[1:] == [("attempt", 1000, 2000, reason)]
    assert spans[1].error is None


def test_a_task_that_a_worker_is_free_for_never_waits() -> None:
    spans = spans_of((EventKind.TASK_ADDED, TASK), ASSIGNED, (EventKind.TASK_DONE, ATTEMPT))
    assert [span.name for span in spans] == ["submit", "attempt"]


def test_the_wait_for_ci_is_part_of_the_attempt() -> None:
    pushed = (EventKind.MILESTONE_REPORTED, {**ATTEMPT, "milestone": "PUSHED_TO_CI"})
    run = {**ATTEMPT, "repo": "shop", "sha": "a" * 40, "run_id": "7"}
    spans = spans_of(
        ASSIGNED,
        pushed,
        (EventKind.CI_RUN_FOUND, run),
        (EventKind.CI_FAILED, run),
        pushed,
        (EventKind.CI_PASSED, run),
    )
    assert shown(spans)[1:] == [("ci", 2000, 4000, "failed"), ("ci", 5000, 6000, "passed")]
    assert {span.parent_id for span in spans[1:]} == {attempt_span_id_of(SWARM, "t1", 3)}
    assert [span.error for span in spans[1:]] == ["ci_failed", None]
    assert spans[1].attributes["shiftboss.repo"] == "shop"


def test_questions_reviews_and_landings_are_waits_of_their_own() -> None:
    question = {**ATTEMPT, "question_id": 5}
    claim = {**ATTEMPT, "claim_id": 1, "commit": "b" * 40}
    spans = spans_of(
        ASSIGNED,
        (EventKind.QUESTION_ASKED, question),
        (EventKind.QUESTION_ANSWERED, question),
        (EventKind.CLAIM_MADE, claim),
        (EventKind.CLAIM_ACCEPTED, claim),
        (EventKind.REVIEW_REQUESTED, TASK),
        (EventKind.TASK_DONE, ATTEMPT),
        (EventKind.REVIEW_APPROVED, TASK),
        (EventKind.TASK_LANDED, {**TASK, "landed_commit": "c" * 40}),
    )
    assert shown(spans)[1:] == [
        ("question", 2000, 3000, "answered"),
        ("verify", 4000, 5000, "accepted"),
        ("attempt", 1000, 7000, "done"),
        ("review", 6000, 8000, "approved"),
        ("land", 8000, 9000, None),
    ]


def test_an_agents_run_follows_the_conventions_for_generative_ai() -> None:
    run = {
        **ATTEMPT,
        "process": 2,
        "agent": "claude",
        "provider": "anthropic",
        "model": "sonnet",
        "duration_ms": 700,
        "ended": "quota",
        "input_tokens": 10,
        "output_tokens": 5,
        "cached_tokens": 90,
        "dollars": None,
    }
    (span,) = spans_of((EventKind.AGENT_RUN_ENDED, run))
    assert span.name == "invoke_agent claude"
    assert (span.start_ms, span.end_ms, span.error) == (300, 1000, "quota")
    assert span.parent_id == attempt_span_id_of(SWARM, "t1", 3)
    known = {name: value for name, value in span.attributes.items() if name.startswith("gen_ai.")}
    assert known == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "claude",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.request.model": "sonnet",
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 5,
        "gen_ai.usage.cache_read.input_tokens": 90,
    }


def test_numbers_that_no_trace_can_hold_are_cut() -> None:
    """One of them would keep the collector from all traces, of all swarms."""
    run = {
        **ATTEMPT,
        "process": 2**80,
        "agent": "claude",
        "provider": None,
        "model": None,
        "duration_ms": 2**53 - 1,
        "ended": "ended",
        "input_tokens": 10,
        "output_tokens": 2**70,
        "cached_tokens": 0,
        "dollars": None,
    }
    (span,) = spans_of((EventKind.AGENT_RUN_ENDED, run))
    assert (span.start_ms, span.end_ms) == (0, 1000)
    assert span.attributes["gen_ai.usage.output_tokens"] == 2**63 - 1
    swarm = SwarmSpans(SWARM)
    now_ms = 1_800_000_000_000
    event = Event(SWARM, 1, EventKind.AGENT_RUN_ENDED.value, now_ms, json.dumps(run))
    (span,) = swarm.apply(event, run)
    assert now_ms - span.start_ms == 30 * 24 * 3600 * 1000


def test_the_checks_of_a_verdict_are_the_children_of_its_verification() -> None:
    claimed = {**ATTEMPT, "claim_id": 1}
    (verify,) = spans_of((EventKind.CLAIM_MADE, claimed), (EventKind.CLAIM_REFUSED, claimed))
    checks = [
        CheckResult(check="commit", outcome="passed", message="", duration_ms=100),
        CheckResult(
            check="criterion",
            outcome="failed",
            message="secret text",
            subject="secret command",
            output_tail="secret output",
            exit_code=1,
            duration_ms=300,
        ),
    ]
    verdict = Verdict(accepted=False, base_commit="a" * 40, checks=checks, violations=[])
    claim = Claim(
        SWARM, "t1", 1, 3, "w", "refused", 1, "{}", 1000,
        taken_by="server", verdict=verdict.model_dump_json(), taken_at_ms=1500,
    )  # fmt: skip
    detailed, first, second = with_checks(verify, claim)
    assert (detailed.name, detailed.error) == ("verify", "refused")
    assert detailed.attributes["shiftboss.verifier.wait_ms"] == 500
    assert [first.parent_id, second.parent_id] == [verify.span_id, verify.span_id]
    assert (first.name, first.start_ms, first.end_ms) == ("check commit", 1500, 1600)
    assert (second.name, second.start_ms, second.end_ms) == ("check criterion", 1600, 1900)
    assert (second.error, second.attributes["process.exit.code"]) == ("check_failed", 1)
    assert "secret" not in repr((detailed, first, second))


def test_packets_have_traces_too() -> None:
    packet = {"packet_id": 7, "packet_name": "auth", "tasks_total": 2, "attempt": 1}
    spans = spans_of(
        (EventKind.WORKER_REGISTERED, packet),
        (EventKind.WORKER_ERROR, {"packet_id": 7, "retry_scheduled": False}),
        (EventKind.WORKER_REGISTERED, {**packet, "attempt": 2}),
        (EventKind.WORKER_COMPLETE, {"packet_id": 7}),
    )
    assert shown(spans) == [
        ("submit", 1000, 1000, None),
        ("attempt", 1000, 2000, "failed"),
        ("attempt", 3000, 4000, "done"),
    ]


def test_what_began_before_the_first_event_that_is_left_has_no_span() -> None:
    assert spans_of(
        (EventKind.TASK_DONE, ATTEMPT),
        (EventKind.CLAIM_REFUSED, {**ATTEMPT, "claim_id": 1}),
        (EventKind.TASK_LANDED, {**TASK, "landed_commit": "c" * 40}),
    ) == []  # fmt: skip
