"""The content of a checkpoint: what the server knows about an attempt, for the next worker."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

COMMITS_KEPT_MAX: Final = 200
FILES_KEPT_MAX: Final = 500
DECISIONS_KEPT_MAX: Final = 50
DECISION_CHARACTERS_MAX: Final = 500

Body = dict[str, Any]


class WorkSinceBase(NamedTuple):
    """What git has of a task: the commits since its base, oldest first, and the files that differ
    from the base."""

    commits: Sequence[str]
    files: Sequence[str]


class AttemptProgress(NamedTuple):
    """The present state of an attempt. `last_report` is its last milestone report."""

    worker: str
    repo: str | None
    task_id: str
    milestone: str | None
    at_ms: int
    commits: Sequence[str]
    ci_runs: list[dict[str, Any]]
    last_report: Mapping[str, Any]
    paused: str | None


def checkpoint_body(progress: AttemptProgress, previous: Mapping[str, Any]) -> Body:
    """The fields of the contract. Lists continue those of the `previous` checkpoint."""
    report = progress.last_report
    blockers = (report.get("reason"), progress.paused)
    body = {
        "worker_id": progress.worker,
        "repo_name": progress.repo,
        "component_id": progress.task_id,
        "current_milestone": progress.milestone,
        "timestamp": progress.at_ms,
        "commits": _joined(previous.get("commits"), progress.commits, COMMITS_KEPT_MAX),
        "ci_runs": progress.ci_runs,
        "files_modified": _joined(
            previous.get("files_modified"), report.get("affected_files"), FILES_KEPT_MAX
        ),
        "context_summary": report.get("description")
        or report.get("diagnosis")
        or previous.get("context_summary"),
        "blockers": [blocker for blocker in blockers if blocker],
        "decisions_made": previous.get("decisions_made", []),
    }
    diagnosis = report.get("diagnosis")
    return with_decisions(body, [f"{report.get('failed_job')}: {diagnosis}"] if diagnosis else [])


def with_work(body: Body, work: WorkSinceBase) -> Body:
    """Git knows the changed files better than the reports do: they replace the recorded ones."""
    return body | {
        "commits": _joined(body.get("commits"), work.commits, COMMITS_KEPT_MAX),
        "files_modified": list(work.files[:FILES_KEPT_MAX]),
    }


def with_decisions(body: Body, decisions: Iterable[str]) -> Body:
    new = [" ".join(text.split())[:DECISION_CHARACTERS_MAX] for text in decisions]
    return body | {
        "decisions_made": _joined(body.get("decisions_made"), new, DECISIONS_KEPT_MAX),
    }


def answered(question: str, answer: str) -> str:
    """An answered question as a decision."""
    half = DECISION_CHARACTERS_MAX // 2
    return f"{' '.join(question.split())[: half - 2]}: {answer}"


def with_instructions(checkpoint: Body, answers: Iterable[str]) -> Body:
    """Answers of a person to an earlier attempt, for the next one."""
    earlier = checkpoint.get("instructions")
    return checkpoint | {"instructions": "\n".join(filter(None, (earlier, *answers)))}


def _joined(earlier: Sequence[str] | None, later: Sequence[str] | None, maximum: int) -> list[str]:
    """Each once; the newest are kept."""
    return list(dict.fromkeys([*(earlier or ()), *(later or ())]))[-maximum:]
