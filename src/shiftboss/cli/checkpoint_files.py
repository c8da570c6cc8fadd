"""Checkpoints as the files of the completion contract: sessions/{date}-{worker_id}.checkpoint.cspec

The newest of a worker's day has that name; an older one has the id of its task in it as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

FOLDER: Final = "sessions"

_REQUIRED: Final = ("worker_id", "repo_name", "component_id", "current_milestone", "timestamp")
_FURTHER: Final = ("context_summary", "blockers", "decisions_made")
# What a name on a disk may hold everywhere.
_ODD: Final = re.compile(r"[^A-Za-z0-9._-]")


class CheckpointFile(NamedTuple):
    name: str
    trigger: str
    fields: dict[str, Any]


def fields_of(body: Mapping[str, Any]) -> dict[str, Any]:
    """The contract's fields in its order; a time as people write it."""
    fields: dict[str, Any] = {name: body.get(name) for name in _REQUIRED}
    fields["timestamp"] = _at(body).strftime("%Y-%m-%dT%H:%M:%SZ")
    fields["commits"] = body.get("commits") or []
    fields["ci_runs"] = [_run(one) for one in body.get("ci_runs") or []]
    fields["files_modified"] = body.get("files_modified") or []
    return fields | {name: body[name] for name in _FURTHER if body.get(name)}


def _run(seen: Mapping[str, Any]) -> dict[str, Any]:
    passed = [job["name"] for job in seen.get("jobs", []) if job["state"] == "success"]
    return {"id": seen.get("run_id"), "status": seen.get("state"), "jobs_passed": passed}


def _at(body: Mapping[str, Any]) -> datetime:
    return datetime.fromtimestamp(body["timestamp"] / 1000, UTC)


def files_of(checkpoints: Iterable[Mapping[str, Any]]) -> list[CheckpointFile]:
    """`checkpoints` are answers of show_checkpoint. No two files have one name."""
    newest_first = sorted(checkpoints, key=lambda one: one["body"]["timestamp"], reverse=True)
    found: dict[str, CheckpointFile] = {}
    for one in newest_first:
        body = one["body"]
        stem = f"{_at(body):%Y-%m-%d}-{_usable(body['worker_id'])}"
        if f"{stem}.checkpoint.cspec" in found:
            stem = f"{stem}-{_usable(body['component_id'])}"
        name = f"{stem}.checkpoint.cspec"
        found[name] = CheckpointFile(name, one["trigger"], fields_of(body))
    return list(found.values())


def _usable(name: str) -> str:
    return _ODD.sub("_", name)


def content_of(file: CheckpointFile) -> str:
    """YAML, which is imported late: only those who export need it."""
    import yaml

    fields = yaml.safe_dump(file.fields, sort_keys=False, allow_unicode=True)
    return f"# Worker checkpoint\n# trigger: {file.trigger}\n\n{fields}"
