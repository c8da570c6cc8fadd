"""What the lines of a log are about: a swarm, a task, an attempt, a worker.

Code that works on something says so once, with `about`; each line that is logged within it, by
whatever module, has the names. With the swarm and the task it has the trace id as well, which is
that of the exported trace and of the exemplars of the metrics.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from shiftboss.protocol.trace_ids import trace_id_of

Subject = Mapping[str, object]

_NOTHING: Final[Subject] = {}
_CURRENT: Final[ContextVar[Subject]] = ContextVar("log_subject", default=_NOTHING)


@contextmanager
def about(
    swarm: str,
    task: str | None = None,
    *,
    epoch: int | None = None,
    worker: str | None = None,
    claim: int | None = None,
    repo: str | None = None,
) -> Iterator[None]:
    """Also for the tasks and the threads of asyncio that are started within it."""
    facts = subject(swarm, task, epoch=epoch, worker=worker, claim=claim, repo=repo)
    token = _CURRENT.set({**_CURRENT.get(), **facts})
    try:
        yield
    finally:
        _CURRENT.reset(token)


def subject(swarm: str, task: str | None = None, **more: object) -> dict[str, object]:
    """The facts of one line that is about this."""
    facts = {"swarm": swarm, "task": task, **more}
    return {name: value for name, value in facts.items() if value is not None}


def with_subject(facts: Mapping[str, object]) -> dict[str, object]:
    """The facts of a line, with those of where it is logged. Its own ones count."""
    known = {**_CURRENT.get(), **facts}
    swarm, task = known.get("swarm"), known.get("task")
    if isinstance(swarm, str) and isinstance(task, str):
        known["trace_id"] = trace_id_of(swarm, task)
    return known
