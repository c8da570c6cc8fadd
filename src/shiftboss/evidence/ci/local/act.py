"""Workflow files of a commit: reading them, and running them with `act`, without containers."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from shiftboss.evidence.ci.forge_api.http import LOG_TAIL_BYTES
from shiftboss.evidence.ci.states import job_state
from shiftboss.evidence.commands.command import Limits, checkout_environment, run_command
from shiftboss.evidence.mirror.checkout import Checkout, clean_checkout
from shiftboss.evidence.mirror.mirror import Mirror
from shiftboss.protocol.ci import CiJob, JobState
from shiftboss.rules.claims.criteria import CommandResult
from shiftboss.system.background_delete import BackgroundDelete

FILE_BYTES_MAX: Final = 256 * 1024
# In the order of Forgejo, which uses the first folder that has any workflow.
_WORKFLOW_FOLDERS: Final = (".forgejo/workflows", ".gitea/workflows", ".github/workflows")
WORKFLOW_SECONDS: Final = 3600.0
OUTPUT_BYTES: Final = 16 * 1024 * 1024
MEGABYTES: Final = 4096

_EVENT: Final = "event.json"
_NOTHING_TO_DO: Final = "Could not find any stages to run"
# The parts of a matrix count as one job, in the worst of their states.
_WORST_FIRST: Final[tuple[JobState, ...]] = ("failure", "cancelled", "skipped", "success")


class Workflow(NamedTuple):
    """`jobs` are the names by id; `problem` is why the file is unusable, if it is."""

    path: str
    jobs: Mapping[str, str]
    labels: list[str]
    problem: str | None = None


class PushEvent(NamedTuple):
    sha: str
    branch: str


def act_program() -> str | None:
    return shutil.which("act")


async def run_workflow(
    program: str,
    mirror: Mirror,
    push: PushEvent,
    workflow: Workflow,
    deletion: BackgroundDelete,
    variables: Mapping[str, str],
) -> list[CiJob]:
    """The ended jobs. Empty if the workflow does not run on a push."""
    if workflow.problem is not None:
        return [CiJob(name=workflow.path, state="failure", log_tail=workflow.problem)]
    async with clean_checkout(mirror, push.sha, deletion) as checkout:
        environment = await asyncio.to_thread(_prepare, checkout, push)
        # Not in the checkout, because act would read options from a file `.actrc` there.
        result = await run_command(
            _argv(program, checkout, workflow, variables),
            checkout.home,
            Limits(WORKFLOW_SECONDS, MEGABYTES, OUTPUT_BYTES),
            environment,
        )
    return jobs_of(workflow, result)


def jobs_of(workflow: Workflow, result: CommandResult) -> list[CiJob]:
    """A job that act does not mention was skipped. If act failed but no job did, a failed job with
    the output of act is added."""
    states: dict[str, set[JobState]] = {}
    logs: dict[str, str] = {}
    for line in _lines(result.output_tail):
        job_id = str(line.get("jobID"))
        if "jobResult" in line:
            states.setdefault(job_id, set()).add(_result(line))
        if line.get("raw_output") or line.get("level") == "error":
            log = f"{logs.get(job_id, '')}{str(line.get('msg', '')).rstrip()}\n"
            logs[job_id] = log[-LOG_TAIL_BYTES:]
    if not states and _NOTHING_TO_DO in result.output_tail:
        return []
    jobs = [
        _job(name, states.get(job_id, set()), logs.get(job_id))
        for job_id, name in workflow.jobs.items()
    ]
    if result.exit_code != 0 and not any(job.state == "failure" for job in jobs):
        log = f"{result.output_tail[-2000:].rstrip()}\nact: {result.message}"
        jobs.append(CiJob(name=workflow.path, state="failure", log_tail=log))
    return jobs


def _job(name: str, states: set[JobState], log: str | None) -> CiJob:
    state = next((state for state in _WORST_FIRST if state in states), "skipped")
    return CiJob(name=name, state=state, log_tail=log if state == "failure" else None)


def _result(line: dict[str, Any]) -> JobState:
    """A dry run proves nothing."""
    if line.get("dryrun") is not False:
        return "skipped"
    return job_state("completed", str(line["jobResult"]))


def _lines(output: str) -> Iterator[dict[str, Any]]:
    for text in output.splitlines():
        try:
            line = json.loads(text)
        except (ValueError, RecursionError):
            continue
        if isinstance(line, dict):
            yield line


def _prepare(checkout: Checkout, push: PushEvent) -> dict[str, str]:
    """Without a settings file, act asks which image to use. Without the event, it does not know the
    branch, which conditions of jobs refer to."""
    settings = checkout.home / ".config" / "act" / "actrc"
    settings.parent.mkdir(parents=True)
    settings.touch()
    event = {"ref": f"refs/heads/{push.branch}", "after": push.sha}
    (checkout.home / _EVENT).write_text(json.dumps(event))
    return checkout_environment([], checkout.home)


def _argv(
    program: str, checkout: Checkout, workflow: Workflow, variables: Mapping[str, str]
) -> list[str]:
    """Every label means this machine. Files that only act would read are replaced by empty ones."""
    labels = {"ubuntu-latest", *workflow.labels}
    return [
        *(program, "push", "--json", "--no-cache-server", "--pull=false"),
        *("-e", str(checkout.home / _EVENT)),
        *(word for label in sorted(labels) for word in ("-P", f"{label}=-self-hosted")),
        *(word for pair in variables.items() for word in ("--env", "=".join(pair))),
        *("--env-file", "/dev/null", "--secret-file", "/dev/null"),
        *("--var-file", "/dev/null", "--input-file", "/dev/null"),
        *("-C", str(checkout.files), "-W", str(Path(checkout.files, workflow.path))),
    ]


async def workflows_in(mirror: Mirror, sha: str) -> list[Workflow]:
    for folder in _WORKFLOW_FOLDERS:
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
        return Workflow(path, {}, [], "the file cannot be read, or is too large")
    try:
        content = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        return Workflow(path, {}, [], f"the file is not YAML: {error}"[:500])
    jobs = content.get("jobs") if isinstance(content, dict) else None
    if not isinstance(jobs, dict) or not all(isinstance(job, dict) for job in jobs.values()):
        return Workflow(path, {}, [], "the file has no jobs")
    names = {str(job_id): _name(str(job_id), job) for job_id, job in jobs.items()}
    labels = {label for job in jobs.values() for label in _labels(job.get("runs-on"))}
    return Workflow(path, names, sorted(labels))


def _is_workflow(path: str) -> bool:
    return path.endswith((".yml", ".yaml"))


def _name(job_id: str, job: dict[str, Any]) -> str:
    """The name, unless it contains an expression: a policy could not refer to it."""
    name = job.get("name")
    return name if isinstance(name, str) and name and "${{" not in name else job_id


def _labels(runs_on: Any) -> list[str]:
    labels = runs_on if isinstance(runs_on, list) else [runs_on]
    return [label for label in labels if isinstance(label, str) and "${{" not in label]
