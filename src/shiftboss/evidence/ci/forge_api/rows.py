"""Runs, jobs and tasks, parsed from the JSON of the different forges and their versions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from shiftboss.evidence.ci.states import job_state
from shiftboss.protocol.ci import CiJob, JobState

_PULL_REQUEST_REF: Final = re.compile(r"refs/pull/(\d+)/")
# Forgejo and Gitea have events of their own for some changes of a pull request.
_HOOKS: Final = dict.fromkeys(
    (
        "pull_request_sync",
        "pull_request_assign",
        "pull_request_label",
        "pull_request_milestone",
        "pull_request_review_request",
    ),
    "pull_request",
)


class ForgeRow(NamedTuple):
    """A run, or a task of Forgejo, which is a job with the number of its run.

    `sha` is empty if the forge left it out. `branch` is empty for a tag, and `#12` for a pull
    request whose branch the forge does not name. With `is_fork`, it is a branch of another
    repository. `version` changes whenever the run does.
    """

    id: int
    number: str
    sha: str
    state: JobState
    name: str
    workflow: str
    event: str | None
    branch: str
    is_fork: bool
    url: str | None
    created_at: datetime | None
    updated_at: datetime | None
    version: str


def rows_in(body: Any, *members: str) -> list[dict[str, Any]]:
    """The objects in the body, which is a list, or an object with the list in one of `members`."""
    if isinstance(body, dict):
        body = next((body[name] for name in members if body.get(name) is not None), None)
    return [row for row in body if isinstance(row, dict)] if isinstance(body, list) else []


def runs_in(rows: Iterable[dict[str, Any]]) -> Iterator[ForgeRow]:
    for run in rows:
        if isinstance(run.get("id"), int):
            yield _row(run)


def jobs_in(rows: Iterable[dict[str, Any]]) -> Iterator[CiJob]:
    for job in rows:
        number = job.get("id")
        yield CiJob(
            name=_text(job, "name"),
            state=job_state(_text(job, "status"), _text(job, "conclusion")),
            job_id=str(number) if isinstance(number, int) else None,
            url=_text(job, "html_url") or None,
        )


def newest_first(rows: Iterable[ForgeRow]) -> list[ForgeRow]:
    return sorted(rows, key=lambda row: row.id, reverse=True)


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
    # Gitea appends the ref of the run: `ci.yml@refs/heads/main`. GitHub has the path of the file,
    # and may append the ref of the file.
    path, _, ref = _text(row, "path").partition("@")
    event = _text(row, "trigger_event", "event")
    updated = _text(row, "updated_at", "updated", "completed_at", "stopped")
    return ForgeRow(
        id=row["id"],
        number=_text(row, "run_number", "index_in_repo", "id"),
        sha=_text(row, "head_sha", "commit_sha"),
        state=job_state(status, conclusion),
        name=_text(row, "name", "display_title", "title"),
        # GitHub has a number in workflow_id.
        workflow=path or _text(row, "workflow_id", "name"),
        event=_HOOKS.get(event, event) or None,
        branch=_branch("" if "/" in path else ref, _text(row, "head_branch", "prettyref")),
        is_fork=_is_fork(row),
        url=_text(row, "html_url", "url") or None,
        created_at=_time(_text(row, "created_at", "created", "run_started_at")),
        updated_at=_time(updated),
        version=f"{_text(row, 'run_attempt')} {status} {conclusion} {updated}",
    )


def _branch(ref: str, name: str) -> str:
    """`ref` is the full name, if the forge gives it: a tag can have the name of a branch."""
    if ref.startswith("refs/tags/"):
        return ""
    pull_request = _PULL_REQUEST_REF.match(ref)
    if pull_request is not None:
        return f"#{pull_request[1]}"
    return (name or ref).removeprefix("refs/heads/")


def _is_fork(row: dict[str, Any]) -> bool:
    """Anybody can make a fork with a branch of the same name and the same commit."""
    own, head = row.get("repository"), row.get("head_repository")
    if isinstance(own, dict) and isinstance(head, dict) and own.get("id") != head.get("id"):
        return True
    return row.get("is_fork_pull_request") is True


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
