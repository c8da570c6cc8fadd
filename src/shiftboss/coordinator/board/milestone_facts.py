"""Where a worker is within its milestone: the substate and the progress that it reported last."""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

from pydantic import TypeAdapter

from shiftboss.protocol.contract.milestones import MilestoneReport, milestone_of_report, progress_of
from shiftboss.protocol.states import WorkerState
from shiftboss.rules.contract.milestones import milestone_view
from shiftboss.rules.contract.records import ContractAttempt

_REPORT: Final = TypeAdapter[MilestoneReport](MilestoneReport)


class MilestoneFacts(NamedTuple):
    milestone: str | None = None
    substate: str | None = None
    progress: str | None = None


def milestone_facts(
    state: WorkerState | None, epoch: int, attempt: ContractAttempt | None
) -> MilestoneFacts:
    """What a report says counts as long as its milestone does."""
    if state is None or attempt is None or attempt.epoch != epoch:
        return MilestoneFacts()
    milestone = milestone_view(state, ci_failed=attempt.ci_failed)
    report = _report(attempt.progress)
    if report is None or milestone_of_report(report) != milestone:
        return MilestoneFacts(milestone)
    return MilestoneFacts(milestone, getattr(report, "substate", None), progress_of(report))


def _report(stored: str | None) -> MilestoneReport | None:
    """The report without what it returned with it. After a failed CI run there is none: the names
    of its jobs are stored in its place."""
    report: dict[str, Any] = json.loads(stored) if stored else {}
    report.pop("returns", None)
    return _REPORT.validate_python(report) if "milestone" in report else None
