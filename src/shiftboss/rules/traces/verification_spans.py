"""The span of a verification with those of its checks, from the claim as it is stored."""

from __future__ import annotations

from collections.abc import Iterator

from shiftboss.protocol.claims.verdicts import CheckResult, Verdict
from shiftboss.rules.claims.claims import Claim
from shiftboss.rules.traces import span as names
from shiftboss.rules.traces.span import Span, task_span


def with_checks(span: Span, claim: Claim | None) -> list[Span]:
    """The verdict has how long each check took, and no times. They run one after the other, so
    they are laid end to end from the moment that a verifier took the claim."""
    if claim is None or claim.verdict is None:
        return [span]
    began_ms = max(claim.taken_at_ms or span.start_ms, span.start_ms)
    details = {names.VERIFIER: claim.taken_by, names.VERIFIER_WAIT: began_ms - span.start_ms}
    known = {name: value for name, value in details.items() if value is not None}
    detailed = span._replace(attributes={**span.attributes, **known})
    verdict = Verdict.model_validate_json(claim.verdict)
    return [detailed, *_check_spans(detailed, claim, verdict, began_ms)]


def _check_spans(span: Span, claim: Claim, verdict: Verdict, began_ms: int) -> Iterator[Span]:
    at_ms = min(began_ms, span.end_ms)
    for number, check in enumerate(verdict.checks):
        end_ms = min(at_ms + check.duration_ms, span.end_ms)
        yield _check_span(span, claim, check, number, (at_ms, end_ms))
        at_ms = end_ms


def _check_span(
    span: Span, claim: Claim, check: CheckResult, number: int, times_ms: tuple[int, int]
) -> Span:
    child = task_span(
        f"check {check.check}",
        (span.swarm_id, span.task_id),
        ("claim", claim.claim_id, "check", number),
        times_ms,
        epoch=claim.epoch,
        attributes={
            names.CHECK: check.check,
            names.RESULT: check.outcome,
            names.EXIT_CODE: check.exit_code,
        },
        error="check_failed" if check.outcome == "failed" else None,
    )
    return child._replace(parent_id=span.span_id)
