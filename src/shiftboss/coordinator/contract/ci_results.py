"""Use case of looking at CI: what is known of the commit that was pushed last."""

from __future__ import annotations

import json

from shiftboss.errors import UnknownHandoff
from shiftboss.protocol.ci import CiReport
from shiftboss.protocol.ci_requests import ShowCiAnswer
from shiftboss.store.port import Transaction


def show(tx: Transaction, swarm_id: str, task_id: str) -> ShowCiAnswer:
    handoff = tx.handoff(swarm_id, task_id)
    if handoff is None:
        raise UnknownHandoff(task_id)
    tracking = tx.tracking(swarm_id, task_id)
    if tracking is None:
        return _of_ended(tx, swarm_id, task_id, handoff.repo_name)
    report = CiReport.model_validate_json(tracking.report) if tracking.report else None
    return ShowCiAnswer(
        bead_id=task_id,
        state=tracking.state,
        repo=tracking.repo,
        sha=tracking.sha,
        run_id=tracking.run_id,
        jobs=[job for run in report.runs for job in run.jobs] if report else [],
    )


def _of_ended(tx: Transaction, swarm_id: str, task_id: str, repo: str | None) -> ShowCiAnswer:
    """A commit is followed until its work is done; after that the checkpoint knows of it."""
    stored = tx.checkpoint(swarm_id, task_id)
    runs = json.loads(stored.body)["ci_runs"] if stored is not None else []
    if not runs:
        return ShowCiAnswer(bead_id=task_id, state="none", repo=repo)
    last = runs[-1]
    return ShowCiAnswer(
        bead_id=task_id, state=last["status"], repo=repo, sha=last["sha"], run_id=last["id"]
    )
