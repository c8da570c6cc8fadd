"""The facts of one task: why it is where it is, its verdict, its diff, its contract, its events."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from shiftboss.cli.common.client import RequestRefused, parse_answer
from shiftboss.cli.common.command import ServerSession

EVENTS_SHOWN_MAX: Final = 60
Members = Mapping[str, Any]


@dataclass
class LoadedTask:
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
    swarm_id: str, task_id: str, before: LoadedTask | None
) -> Callable[[ServerSession], LoadedTask]:
    """The diff of `before` is kept if nothing was claimed since: it takes git to make one."""

    def load(session: ServerSession) -> LoadedTask:
        facts = LoadedTask(swarm_id, task_id)
        for part in _LOADS:
            answer = _ask(session, facts, part)
            whole = part.part in ("task", "handoff")
            value = answer if whole or answer is None else answer[part.member]
            if value is not None:
                setattr(facts, part.part, value)
        _add_diff(session, facts, before)
        return facts

    return load


def _ask(session: ServerSession, facts: LoadedTask, part: _Load) -> dict[str, Any] | None:
    members = {"limit": EVENTS_SHOWN_MAX} if part.part == "events" else {}
    try:
        document = session.call(part.operation, facts.swarm_id, bead_id=facts.task_id, **members)
    except RequestRefused as refusal:
        facts.refusals[part.part] = _refusal_text(refusal)
        return None
    return parse_answer(document, part.member)


def _refusal_text(refusal: RequestRefused) -> str:
    return f"{refusal.detail}; {refusal.hint}" if refusal.hint else refusal.detail


def _add_diff(session: ServerSession, facts: LoadedTask, before: LoadedTask | None) -> None:
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


def _epoch(facts: LoadedTask) -> object:
    return (facts.task or {}).get("epoch")
