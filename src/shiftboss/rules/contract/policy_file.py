"""Reads a policy file and reports all its problems at once, each with its line and its key.

Besides the types, it checks for contradictions: unknown names, dependency cycles, limits that do
not fit together. These checks read the raw data, so that they are reported together with values of
the wrong type, which they skip.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeVar

from pydantic import ValidationError

from shiftboss.errors import InvalidPolicy
from shiftboss.protocol.fields import Request
from shiftboss.protocol.policy import (
    SYNC_JOB,
    Backoff,
    FixingCiTimeout,
    MilestoneTimeout,
    Policy,
    PushedToCiTimeout,
    RecoverableLimits,
    TokenBudget,
    WorkingTimeout,
)
from shiftboss.rules.contract.ci_runs import job_key
from shiftboss.rules.contract.repo_graph import find_cycles, variable_of
from shiftboss.rules.documents.raw_data import (
    Contradiction,
    as_mapping,
    invalid_commands,
    listed_twice,
    strings,
    unknown_names,
)
from shiftboss.rules.documents.typed_files import problem_lines, read_typed_file, summarize_problems
from shiftboss.rules.documents.yaml_lines import KeyPath, Problem
from shiftboss.rules.prompts.token_estimate import estimate_tokens

_TIMEOUTS: Final[dict[str, type[MilestoneTimeout]]] = {
    "WORKING": WorkingTimeout,
    "PUSHED_TO_CI": PushedToCiTimeout,
    "FIXING_CI": FixingCiTimeout,
}

# What the rest of the spawn prompt leaves of its 100 tokens, by our estimate.
SANDBOX_TOKENS_MAX: Final = 18

_JOB_LISTS: Final = ("required_jobs", "must_succeed", "optional_jobs")

R = TypeVar("R", bound=Request)


def read_policy(text: str, name: str) -> Policy:
    """Raises InvalidPolicy with every problem as `name:line: key: what is wrong`."""
    form = read_typed_file(text, Policy, contradictions)
    if form.value is None or form.problems:
        raise invalid_policy(name, form.problems)
    return form.value


def invalid_policy(name: str, problems: Iterable[Problem]) -> InvalidPolicy:
    lines = problem_lines(name, problems)
    return InvalidPolicy(
        summarize_problems(lines),
        hint="nothing was applied; `shiftboss policy check` lists all problems",
        facts={"problems": lines},
    )


def contradictions(data: dict[str, Any]) -> Iterator[Contradiction]:
    repos = as_mapping(data.get("repos"))
    yield from _dependencies(repos)
    for name, repo in repos.items():
        if isinstance(repo, dict):
            yield from _repo(("repos", name), repo)
    if "preset" in data:
        yield from _sync_jobs(repos)
    yield from _limits(data)


def _dependencies(repos: dict[str, Any]) -> Iterator[Contradiction]:
    depends_on = {name: strings(as_mapping(repo).get("depends_on")) for name, repo in repos.items()}
    for name, named in depends_on.items():
        path = ("repos", name, "depends_on")
        yield from unknown_names(path, named, repos, "repo")
        yield from listed_twice(path, named)
    graph = {name: [repo for _, repo in named] for name, named in depends_on.items()}
    for cycle in find_cycles(graph):
        yield (
            ("repos", cycle[0], "depends_on"),
            f"the repos depend on each other in a cycle: {' -> '.join(cycle)}",
        )
    known: dict[str, str] = {}
    for name in repos:
        first = known.setdefault(variable_of(name), name)
        if first != name:
            yield (
                ("repos", name),
                f"gets the same variable as {first!r}: {variable_of(name)}; rename one",
            )


def _repo(path: KeyPath, repo: dict[str, Any]) -> Iterator[Contradiction]:
    ci = as_mapping(repo.get("ci"))
    provider = ci.get("provider", "local")
    if provider == "local" and not (repo.get("path") or repo.get("url")):
        yield path, "needs a path or a url, because its jobs run here in a checkout"
    if provider in ("forgejo", "github") and not ci.get("repository"):
        yield (*path, "ci"), f"the provider {provider} needs a repository (owner/name)"
    if provider == "forgejo" and not ci.get("url"):
        yield (*path, "ci"), "the provider forgejo needs a url (the address of the forge)"
    if "@" in str(ci.get("url") or "").split("://")[-1].split("/")[0]:
        yield (*path, "ci", "url"), "must not contain a user or token; use token_variable"
    scheme, _, rest = str(repo.get("url") or "").partition("://")
    user = rest.split("/")[0].rpartition("@")[0]
    # `ssh://git@host` is a login name. A password, or any user of an http address, is a secret.
    if ":" in user or (user and scheme.startswith("http")):
        yield (*path, "url"), "must not contain a password or token"
    yield from _jobs((*path, "ci"), ci, is_local=provider == "local")


def _jobs(path: KeyPath, ci: dict[str, Any], *, is_local: bool) -> Iterator[Contradiction]:
    jobs = as_mapping(ci.get("jobs"))
    needs = {name: strings(as_mapping(job).get("needs")) for name, job in jobs.items()}
    for name, named in needs.items():
        yield from unknown_names((*path, "jobs", name, "needs"), named, jobs, "job")
    for cycle in find_cycles({name: [job for _, job in named] for name, named in needs.items()}):
        yield (
            (*path, "jobs", cycle[0], "needs"),
            f"the jobs need each other in a cycle: {' -> '.join(cycle)}",
        )
    for name, job in jobs.items():
        yield from invalid_commands(
            (*path, "jobs", name, "run"), strings(as_mapping(job).get("run"))
        )
    known: dict[str, str] = {}
    for name in jobs:
        first = known.setdefault(name.casefold(), name)
        if first != name:
            yield (*path, "jobs", name), f"differs from {first!r} only by letter case"
    # Without jobs in the policy, the local runner takes them from the workflow files.
    are_known = is_local and bool(jobs)
    for key in _JOB_LISTS:
        named = strings(ci.get(key))
        yield from listed_twice((*path, key), named)
        if are_known:
            yield from unknown_names((*path, key), named, jobs, "job", job_key)
    required = {job_key(name) for key in _JOB_LISTS[:2] for _, name in strings(ci.get(key))}
    for place, name in strings(ci.get("optional_jobs")):
        if job_key(name) in required:
            yield (*path, "optional_jobs", place), f"{name!r} is required, so it is not optional"


def _sync_jobs(repos: dict[str, Any]) -> Iterator[Contradiction]:
    """Local jobs without the sync job of the preset could never pass."""
    for repo_name, repo in repos.items():
        ci = as_mapping(as_mapping(repo).get("ci"))
        jobs = as_mapping(ci.get("jobs")) if ci.get("provider", "local") == "local" else {}
        names = {job_key(name) for name in jobs}
        if names and ci.get("must_succeed") is None and SYNC_JOB not in names:
            message = (
                f"the preset demands the job {SYNC_JOB!r}; add it, or list the jobs that must not "
                "be skipped in must_succeed ([]: none)"
            )
            yield ("repos", repo_name, "ci", "jobs"), message


def _limits(data: dict[str, Any]) -> Iterator[Contradiction]:
    milestones = ("timeouts", "milestones")
    for name, kind in _TIMEOUTS.items():
        timeout = _valid(kind, _at(data, (*milestones, name)))
        if timeout is not None and timeout.warning_at > timeout.timeout:
            yield (
                (*milestones, name, "warning_at"),
                f"the warning ({timeout.warning_at}s) is after the timeout ({timeout.timeout}s)",
            )
    backoff = _valid(Backoff, _at(data, ("failures", "transient")))
    if backoff is not None and backoff.initial > backoff.max:
        yield ("failures", "transient", "initial"), f"must not be more than max ({backoff.max}s)"
    limits = _valid(RecoverableLimits, _at(data, ("failures", "recoverable")))
    if limits is not None and limits.escalate_after > limits.max_attempts:
        yield (
            ("failures", "recoverable", "escalate_after"),
            f"must not be more than max_attempts ({limits.max_attempts})",
        )
    tokens = _valid(TokenBudget, data.get("tokens", {}))
    if tokens is not None:
        parts = tokens.spawn_context + tokens.ci_stage_addon + tokens.task_specific
        if parts > tokens.total_target:
            yield ("tokens", "total_target"), f"must be at least the sum of its parts ({parts})"
    line = as_mapping(data.get("sandbox")).get("worker_instruction")
    if isinstance(line, str) and estimate_tokens(line) > SANDBOX_TOKENS_MAX:
        yield (
            ("sandbox", "worker_instruction"),
            f"is too long for the spawn prompt: at most {SANDBOX_TOKENS_MAX} tokens",
        )


def _valid(kind: type[R], raw: object) -> R | None:
    try:
        return kind.model_validate(raw)
    except ValidationError:
        return None


def _at(data: dict[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    for key in keys:
        data = as_mapping(data.get(key))
    return data
