"""The rows of forges: runs, jobs and tasks in the shapes that their versions have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from shiftboss.evidence.ci.states import job_state
from shiftboss.protocol.ci import CiJob, JobState


class ForgeRow(NamedTuple):
    """A run, or a task of Forgejo, which is a job with the number of its run.

    `sha` is empty where the forge did not say. `version` changes when the run does.
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
    """A list, or the list in one of these members. Null and nothing are no rows."""
    if isinstance(body, dict):
        body = next((body[one] for one in members if body.get(one) is not None), None)
    return [one for one in body if isinstance(one, dict)] if isinstance(body, list) else []


def runs_in(body: Any) -> Iterator[ForgeRow]:
    for one in rows_in(body, "workflow_runs", "entries", "runs"):
        if isinstance(one.get("id"), int):
            yield _row(one)


def jobs_in(body: Any) -> Iterator[CiJob]:
    for one in rows_in(body, "jobs", "entries", "workflow_jobs"):
        number = one.get("id")
        yield CiJob(
            name=_text(one, "name"),
            state=job_state(_text(one, "status"), _text(one, "conclusion")),
            job_id=str(number) if isinstance(number, int) else None,
            url=_text(one, "html_url") or None,
        )


def newest_runs(rows: Iterable[ForgeRow]) -> list[ForgeRow]:
    """Of every workflow and event, the newest first. One that was started by hand or by a timer
    does not hide what the push said."""
    newest: dict[tuple[str, str | None], ForgeRow] = {}
    for row in sorted(rows, key=lambda row: row.id, reverse=True):
        newest.setdefault((row.workflow, row.event), row)
    return list(newest.values())


def is_of(row: ForgeRow, sha: str) -> bool:
    return row.sha.lower() == sha.lower()


def numbered(rows: Iterable[ForgeRow], number: str) -> ForgeRow | None:
    """The newest run with this number."""
    found = [row for row in rows if row.number == number]
    return max(found, key=lambda row: row.id, default=None)


def rows_of(rows: Sequence[ForgeRow], sha: str) -> list[ForgeRow]:
    """Those of the commit, and those that name none but have the number of a run of the commit."""
    runs = {row.number for row in rows if is_of(row, sha)}
    return [row for row in rows if is_of(row, sha) or (not row.sha and row.number in runs)]


def _row(one: dict[str, Any]) -> ForgeRow:
    """GitHub and Gitea say head_sha and run_number, Forgejo commit_sha and index_in_repo."""
    status, conclusion = _text(one, "status"), _text(one, "conclusion")
    updated = _text(one, "updated_at", "updated", "completed_at", "stopped")
    return ForgeRow(
        id=one["id"],
        number=_text(one, "run_number", "index_in_repo", "id"),
        sha=_text(one, "head_sha", "commit_sha"),
        state=job_state(status, conclusion),
        name=_text(one, "name", "display_title", "title"),
        # Gitea puts the branch behind the file, GitHub a number into workflow_id.
        workflow=_text(one, "path", "workflow_id", "name").partition("@")[0],
        event=_text(one, "trigger_event", "event") or None,
        branch=_text(one, "head_branch", "prettyref"),
        url=_text(one, "html_url", "url") or None,
        created_at=_time(_text(one, "created_at", "created", "run_started_at")),
        updated_at=_time(updated),
        version=f"{_text(one, 'run_attempt')} {status} {conclusion} {updated}",
    )


def _text(one: dict[str, Any], *names: str) -> str:
    """The first of these members that is there, a number as its digits."""
    values = (one.get(name) for name in names)
    return next((str(value) for value in values if value not in (None, "")), "")


def _time(text: str) -> datetime | None:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)
