"""What is remembered of a plan that runs: what it has used, what it may, what holds it, what has
landed."""

from __future__ import annotations

from typing import NamedTuple

# In place of a task's id: the swarm as a whole.
WHOLE_SWARM = ""


class ProcessUsage(NamedTuple):
    """What one process of an attempt has used. `microdollars` None: nobody knows."""

    swarm_id: str
    task_id: str
    epoch: int
    process: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    microdollars: int | None
    at_ms: int

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens


class Totals(NamedTuple):
    """Sums of a task or of a swarm. `unpriced_tokens` are those of processes without a price."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    microdollars: int = 0
    unpriced_tokens: int = 0

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens


class BudgetRecord(NamedTuple):
    """What may be spent. `question_id` is what the contact was asked when it was used up."""

    swarm_id: str
    task_id: str
    tokens: int | None
    microdollars: int | None
    by_operator: bool = False  # who said so last
    question_id: int | None = None


class Hold(NamedTuple):
    """Nothing is handed out, of a task or of the swarm. `kind` is pause or budget."""

    swarm_id: str
    task_id: str
    kind: str
    reason: str
    since_ms: int
    until_ms: int | None


class LandingRecord(NamedTuple):
    """An accepted commit, and where it has landed; None: it has not."""

    swarm_id: str
    task_id: str
    receipt_id: str
    commit_sha: str
    accepted_at_ms: int
    target: str | None = None
    landed_commit: str | None = None
    landed_at_ms: int | None = None


# Of two reasons not to hand anything out, which one counts.


def longer(known: Hold | None, wanted: Hold) -> Hold:
    """The one that ends later; one without an end is somebody's word, and lasts until it is taken
    back. It began when the first did."""
    if known is None:
        return wanted
    if known.until_ms is None:
        return known
    if wanted.until_ms is None or wanted.until_ms > known.until_ms:
        return wanted._replace(since_ms=known.since_ms)
    return known
