"""The facts of one task: why it is where it is, its verdict, its diff, its attempts, its contract."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from rich.console import RenderableType
from rich.text import Text

from shiftboss.cli.common.client import RequestRefused, parse_answer
from shiftboss.cli.common.command import ServerSession
from shiftboss.cli.common.event_stream import StreamEvent
from shiftboss.cli.common.output import printable
from shiftboss.cli.views.bus import task_summary
from shiftboss.cli.views.events import event_line
from shiftboss.cli.views.handoffs import claim_lines, handoff_summary
from shiftboss.cli.views.overview import reason_lines
from shiftboss.cli.watch.diff import diff_lines
from shiftboss.cli.watch.documents import drawn

EVENTS_SHOWN_MAX: Final = 60
Members = Mapping[str, Any]


@dataclass
class TaskFacts:
    """`refusals` are what the server did not tell, by part. The diff is of the commit `diff_of`."""

    swarm_id: str
    task_id: str
    task: dict[str, Any] | None = None
    reasons: Sequence[dict[str, Any]] = ()
    handoff: dict[str, Any] | None = None
    claims: Sequence[dict[str, Any]] = ()
    events: Sequence[Members] = ()
    diff: Members | None = None
    diff_of: str = ""
    refusals: dict[str, str] = field(default_factory=dict)


class _Load(NamedTuple):
    """One part: the request, the member that tells its answer, and where it goes."""

    part: str
    operation: str
    member: str


_LOADS: Final = (
    _Load("task", "show_task", "status"),
    _Load("reasons", "why_task", "reasons"),
    _Load("handoff", "show_handoff", "handoff"),
    _Load("claims", "list_task_claims", "claims"),
    _Load("events", "list_events", "events"),
)


def load_task(
    swarm_id: str, task_id: str, before: TaskFacts | None
) -> Callable[[ServerSession], TaskFacts]:
    """The diff of `before` is kept if nothing was claimed since: it takes git to make one."""

    def load(session: ServerSession) -> TaskFacts:
        facts = TaskFacts(swarm_id, task_id)
        for part in _LOADS:
            answer = _ask(session, facts, part)
            whole = part.part in ("task", "handoff")
            value = answer if whole or answer is None else answer[part.member]
            if value is not None:
                setattr(facts, part.part, value)
        _add_diff(session, facts, before)
        return facts

    return load


def _ask(session: ServerSession, facts: TaskFacts, part: _Load) -> dict[str, Any] | None:
    members = {"limit": EVENTS_SHOWN_MAX} if part.part == "events" else {}
    try:
        document = session.call(part.operation, facts.swarm_id, bead_id=facts.task_id, **members)
    except RequestRefused as refusal:
        facts.refusals[part.part] = _refusal_text(refusal)
        return None
    return parse_answer(document, part.member)


def _refusal_text(refusal: RequestRefused) -> str:
    return f"{refusal.detail}; {refusal.hint}" if refusal.hint else refusal.detail


def _add_diff(session: ServerSession, facts: TaskFacts, before: TaskFacts | None) -> None:
    newest = facts.claims[0] if facts.claims else {}
    facts.diff_of = f"{newest.get('claim_id')} {newest.get('commit')} {_epoch(facts)}"
    if before is not None and before.diff is not None and before.diff_of == facts.diff_of:
        facts.diff = before.diff
        return
    if facts.handoff is None:
        return
    try:
        document = session.call("show_diff", facts.swarm_id, bead_id=facts.task_id)
    except RequestRefused as refusal:
        facts.refusals["diff"] = _refusal_text(refusal)
        return
    facts.diff = parse_answer(document, "files")


def _epoch(facts: TaskFacts) -> object:
    return (facts.task or {}).get("epoch")


class TaskPage(NamedTuple):
    """The lines of a task, and where its parts begin."""

    lines: list[Any]
    stops: list[int]


def task_page(facts: TaskFacts, width: int) -> TaskPage:
    """Called in a thread."""
    at = datetime.now(UTC)
    lines: list[Any] = []
    stops: list[int] = []
    for title, part in _parts(facts, at, width):
        if not part:
            continue
        stops.append(len(lines))
        head = [Text(), _heading(title, width)] if title else []
        lines += drawn([*head, *part], width)
    return TaskPage(lines, stops)


def _heading(title: str, width: int) -> Text:
    return Text(f"── {title} ".ljust(max(width - 1, 0), "─"), "dim", no_wrap=True)


def _parts(
    facts: TaskFacts, at: datetime, width: int
) -> list[tuple[str, Sequence[RenderableType]]]:
    claim = facts.handoff["claim"] if facts.handoff and facts.handoff.get("claim") else None
    return [
        ("", _summary(facts, at)),
        ("why", reason_lines(list(facts.reasons), with_task=False)),
        ("verdict", claim_lines(claim)[1:] or _refusal(facts, "claims")),
        ("earlier claims", _earlier_claims(facts)),
        ("diff", diff_lines(facts.diff) if facts.diff else _refusal(facts, "diff")),
        ("contract", [handoff_summary(facts.handoff, at)] if facts.handoff else []),
        ("events", _events(facts, width)),
    ]


def _summary(facts: TaskFacts, at: datetime) -> Sequence[RenderableType]:
    return [task_summary(facts.task, at)] if facts.task else _refusal(facts, "task")


def _refusal(facts: TaskFacts, part: str) -> list[Text]:
    return [Text(printable(facts.refusals[part]), "dim")] if part in facts.refusals else []


def _earlier_claims(facts: TaskFacts) -> list[Text]:
    lines = []
    for claim in facts.claims[1:]:
        failed = [str(check.get("name")) for check in claim.get("checks", ()) if _failed(check)]
        by = f", by {', '.join(failed)}" if failed else ""
        text = f"claim {claim.get('claim_id')} of hand-out {claim.get('epoch')}"
        lines.append(Text(printable(f"{text}: {claim.get('state')}{by}")))
    return lines


def _failed(check: Members) -> bool:
    return check.get("result") == "failed"


def _events(facts: TaskFacts, width: int) -> list[RenderableType]:
    """The newest first."""
    return [
        event_line(
            StreamEvent(
                int(event["event_id"]),
                str(event["kind"]),
                event.get("data") or {},
                datetime.fromtimestamp(event["at"] / 1000, UTC).isoformat(),
                event.get("actor"),
            ),
            columns=width,
        )
        for event in facts.events
    ]
