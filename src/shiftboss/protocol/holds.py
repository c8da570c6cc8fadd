"""Why nothing is handed out: a pause, or a budget that is used up."""

from __future__ import annotations

from shiftboss.protocol.fields import Answer


class HoldView(Answer):
    """`kind` is pause or budget. Without `bead_id` it holds the whole swarm; without `until` it
    ends by the operator's word: resume, or a larger budget."""

    kind: str
    bead_id: str | None
    reason: str
    since: int
    until: int | None
