"""Document 000: the limits of every member. A bad request names the field and changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from shiftboss.conformance.checks import Broken, CheckList
from shiftboss.conformance.server.harness import ServerHarness
from shiftboss.conformance.server.swarm_reports import completion, error, progress, registration

LIMITS: Final[CheckList[ServerHarness]] = CheckList()


class Bad(NamedTuple):
    operation: str
    field: str
    body: dict[str, Any]


def _bad() -> Iterator[Bad]:
    for value in (0, -1, "1", None, 1.5):
        yield Bad("register", "packet_id", registration(packet_id=2) | {"packet_id": value})
    for value in ("Backend", "back end", "back_end", "", "api\n"):
        yield Bad("register", "packet_name", registration(2, packet_name=value))
    for total in (0, 1001, -5):
        yield Bad("register", "tasks_total", registration(2, tasks_total=total))
    for path in ("relative/path", "", "./x"):
        yield Bad("register", "worktree", registration(2, worktree=path))
    for state in ("done", "COMPLETED", ""):
        yield Bad("progress", "status", progress(2, status=state))
    yield Bad("progress", "tasks_completed", progress(2, tasks_completed=11))
    for commit in ("abc123", "ABCDEF1", "g" * 10, "a" * 41, ""):
        yield Bad("progress", "commit", progress(2, commit=commit))
        yield Bad("complete", "final_commit", completion(final_commit=commit))
    yield Bad("error", "error_type", error("x" * 101))
    yield Bad("error", "message", error("test_failure", message="x" * 5001))


_MISSING: Final = (
    Bad("register", "worktree", registration(2)),
    Bad("progress", "status", progress(2)),
    Bad("complete", "final_commit", completion()),
    Bad("error", "error_type", error("test_failure")),
)


@LIMITS.add("limits", "000", "SW-06", "Values beyond the limits are refused, and name the field")
def limits(harness: ServerHarness) -> None:
    swarm_id = _registered(harness)
    before = _facts(harness, swarm_id)
    for bad in (*_bad(), *(_without(member) for member in _MISSING)):
        answered = harness.report(swarm_id, bad.operation, bad.body)
        if not 400 <= answered.status < 500:
            value = bad.body.get(bad.field)
            raise Broken(f"{bad.operation} with {bad.field}={value!r} got {answered.status}")
        if bad.field not in str(answered.document):
            raise Broken(f"the refusal does not name {bad.field}: {answered.document}")
    if _facts(harness, swarm_id) != before:
        raise Broken("a refused request has changed the status of the swarm")


@LIMITS.add("bad-body", "000", "SW-06", "A body that is not a JSON object is refused")
def bad_body(harness: ServerHarness) -> None:
    swarm_id = _registered(harness)
    for body in (b"", b"{", b"[]", b"null", b'"text"', b"\xff\xfe"):
        for operation in ("register", "progress", "complete", "error"):
            answered = harness.report(swarm_id, operation, body)
            if not 400 <= answered.status < 500:
                raise Broken(f"{operation} with the body {body!r} got {answered.status}")


@LIMITS.add("within-limits", "000", "SW-06", "Values at the limits are accepted")
def within_limits(harness: ServerHarness) -> None:
    swarm_id = _registered(harness)
    harness.accepted(swarm_id, "register", registration(2, tasks_total=1))
    harness.accepted(swarm_id, "register", registration(3, tasks_total=1000, packet_name="a-0"))
    harness.accepted(swarm_id, "progress", progress(1, commit="a" * 7))
    harness.accepted(swarm_id, "progress", progress(2, commit="0123456789abcdef" * 2 + "a" * 8))
    full = progress(10, tasks_completed=10, status="completed")
    harness.accepted(swarm_id, "progress", full)
    harness.accepted(swarm_id, "error", error("x" * 100, message="x" * 5000))


def _without(bad: Bad) -> Bad:
    return bad._replace(body={name: value for name, value in bad.body.items() if name != bad.field})


def _registered(harness: ServerHarness) -> str:
    swarm_id = harness.new_swarm()
    harness.accepted(swarm_id, "register", registration())
    harness.accepted(swarm_id, "progress", progress(1))
    return swarm_id


def _facts(harness: ServerHarness, swarm_id: str) -> object:
    status = harness.status(swarm_id)
    return status.get("workers_registered"), status.get("workers"), status.get("last_event_id")
