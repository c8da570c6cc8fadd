"""The statuses of a commit on Forgejo and Gitea.

They tell which runs a commit has and which of its jobs wait. They are never proof: Forgejo shows a
job that was skipped as a success there.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Any, Final, NamedTuple

from shiftboss.evidence.ci.rows import rows_in
from shiftboss.protocol.ci import CiJob

# "<workflow> / <job> (<event>)"
_CONTEXT: Final = re.compile(r"(?P<workflow>.*?) / (?P<job>.*) \((?P<event>\w+)\)", re.DOTALL)
_RUN: Final = re.compile(r"/actions/runs/(\d+)(?:/|$)")


class Status(NamedTuple):
    """`run` is the number that people write."""

    run: str
    workflow: str
    event: str
    job: str
    is_open: bool


def statuses_in(body: Any) -> list[Status]:
    """Those that Actions wrote; others have no run. The body may be null."""
    found = []
    for one in rows_in(body, "statuses"):
        context = _CONTEXT.fullmatch(str(one.get("context") or ""))
        run = _RUN.search(str(one.get("target_url") or ""))
        if context is not None and run is not None:
            word = one.get("status") or one.get("state")
            found.append(
                Status(
                    run=run[1],
                    workflow=context["workflow"],
                    event=context["event"],
                    job=context["job"],
                    is_open=word == "pending",
                )
            )
    return found


def without_tasks(
    statuses: Iterable[Status], run: str, jobs: Collection[CiJob] = ()
) -> list[CiJob]:
    """Jobs of a run that no runner has taken: they wait, or else they were passed over."""
    names = {job.name for job in jobs}
    return [
        CiJob(name=one.job, state="waiting" if one.is_open else "skipped")
        for one in statuses
        if one.run == run and one.job not in names
    ]
