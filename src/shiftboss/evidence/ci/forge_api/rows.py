"""Runs, jobs and tasks, parsed from the JSON of the different forges and their versions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from shiftboss.evidence.ci.states import job_state
from shiftboss.protocol.ci import CiJob, JobState


class ForgeRow(NamedTuple):
    """A run, or a task of Forgejo, which is a job with the number of its run.

    `sha` is empty if the forge left it out. `version` changes whenever the run does.
    """

    id: int
    number: str
    sha: str
    state: JobState
    name: str
    workflow: str
    event: str | None
    branch: str
    url: str | None
    created_at: datetime | None
    updated_at: datetime | None
    version: str


def rows_in(body: Any, *members: str) -> list[dict[str, Any]]:
    """The objects in the body, which is a list, or an object with the list in one of `members`."""
    if isinstance(body, dict):
        body = next((body[name] for name in members if body.get(name) is not None), None)
    return [row for row in body if isinstance(row, dict)] if isinstance(body, list) else []


def runs_in(body: Any) -> Iterator[ForgeRow]:
    for run in rows_in(body, "workflow_runs", "entries", "runs"):
        if isinstance(run.get("id"), int):
            yield _row(run)


def jobs_in(body: Any) -> Iterator[CiJob]:
    for job in rows_in(body, "jobs", "entries", "workflow_jobs"):
        number = job.get("id")
        yield CiJob(
            name=_text(job, "name"),
            state=job_state(_text(job, "status"), _text(job, "conclusion")),
            job_id=str(number) if isinstance(number, int) else None,
            url=_text(job, "html_url") or None,
        )


def newest_runs(rows: Iterable[ForgeRow]) -> list[ForgeRow]:
    """The newest run of every workflow and event, the newest first. A run that was started by hand
    or by a timer does not hide that of the push."""
    newest: dict[tuple[str, str | None], ForgeRow] = {}
    for row in sorted(rows, key=lambda row: row.id, reverse=True):
        newest.setdefault((row.workflow, row.event), row)
    return list(newest.values())


def is_of(row: ForgeRow, sha: str) -> bool:
    return row.sha.lower() == sha.lower()


def numbered(rows: Iterable[ForgeRow], number: str) -> ForgeRow | None:
    """The newest run with this number."""
    matching = [row for row in rows if row.number == number]
    return max(matching, key=lambda row: row.id, default=None)


def rows_of(rows: Sequence[ForgeRow], sha: str) -> list[ForgeRow]:
    """The rows of the commit, and rows without a commit that have the number of one of its runs."""
    runs = {row.number for row in rows if is_of(row, sha)}
    return [row for row in rows if is_of(row, sha) or (not row.sha and row.number in runs)]


def _row(row: dict[str, Any]) -> ForgeRow:
    """GitHub and Gitea use head_sha and run_number, Forgejo commit_sha and index_in_repo."""
    status, conclusion = _text(row, "status"), _text(row, "conclusion")
    updated = _text(row, "updated_at", "updated", "completed_at", "stopped")
    return ForgeRow(
        id=row["id"],
        number=_text(row, "run_number", "index_in_repo", "id"),
        sha=_text(row, "head_sha", "commit_sha"),
        state=job_state(status, conclusion),
        name=_text(row, "name", "display_title", "title"),
        # Gitea appends the branch to the file, GitHub has a number in workflow_id.
        workflow=_text(row, "path", "workflow_id", "name").partition("@")[0],
        event=_text(row, "trigger_event", "event") or None,
        branch=_text(row, "head_branch", "prettyref"),
        url=_text(row, "html_url", "url") or None,
        created_at=_time(_text(row, "created_at", "created", "run_started_at")),
        updated_at=_time(updated),
        version=f"{_text(row, 'run_attempt')} {status} {conclusion} {updated}",
    )


def _text(row: dict[str, Any], *names: str) -> str:
    """The first of these members that is not empty; a number as its digits."""
    values = (row.get(name) for name in names)
    return next((str(value) for value in values if value not in (None, "")), "")


def _time(text: str) -> datetime | None:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)
