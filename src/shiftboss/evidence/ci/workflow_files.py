"""Workflow files of a commit: which there are, and which jobs they have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import yaml

from shiftboss.evidence.mirror import Mirror

FILE_BYTES_MAX: Final = 256 * 1024
# Forgejo looks here first, and takes the first folder that has any.
_FOLDERS: Final = (".forgejo/workflows", ".gitea/workflows", ".github/workflows")


class Workflow(NamedTuple):
    """`jobs` are the names by id; `problem` is why the file cannot be used."""

    path: str
    jobs: Mapping[str, str]
    labels: list[str]
    problem: str | None = None


async def workflows_in(mirror: Mirror, sha: str) -> list[Workflow]:
    for folder in _FOLDERS:
        listing = await mirror.output(
            "the workflows", "ls-tree", "--name-only", "-z", sha, f"{folder}/"
        )
        paths = [
            path for path in listing.decode(errors="replace").split("\0") if _is_workflow(path)
        ]
        if paths:
            texts = await mirror.read([f"{sha}:{path}" for path in paths], FILE_BYTES_MAX)
            return [parse_workflow(path, texts.get(f"{sha}:{path}")) for path in paths]
    return []


def parse_workflow(path: str, text: bytes | None) -> Workflow:
    if text is None:
        return Workflow(path, {}, [], "it cannot be read, or is too large")
    try:
        content = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        return Workflow(path, {}, [], f"it is not YAML: {error}"[:500])
    jobs = content.get("jobs") if isinstance(content, dict) else None
    if not isinstance(jobs, dict) or not all(isinstance(job, dict) for job in jobs.values()):
        return Workflow(path, {}, [], "it has no jobs")
    names = {str(one): _name(str(one), job) for one, job in jobs.items()}
    labels = {label for job in jobs.values() for label in _labels(job.get("runs-on"))}
    return Workflow(path, names, sorted(labels))


def _is_workflow(path: str) -> bool:
    return path.endswith((".yml", ".yaml"))


def _name(job_id: str, job: dict[str, Any]) -> str:
    """A name that is only known when the job runs is of no use to a policy."""
    name = job.get("name")
    return name if isinstance(name, str) and name and "${{" not in name else job_id


def _labels(runs_on: Any) -> list[str]:
    labels = runs_on if isinstance(runs_on, list) else [runs_on]
    return [one for one in labels if isinstance(one, str) and "${{" not in one]
