"""Finds out before a run what would make it fail: reads the repositories, the agents and the
programs that a plan needs. Changes nothing."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from shiftboss.agents.registry import AGENTS
from shiftboss.errors import InvalidRequest, ShiftbossError
from shiftboss.evidence.mirror.repository import LONG_NAMES, LONG_NAMES_HINT
from shiftboss.orchestrator.git.checkouts import GitCheckout
from shiftboss.orchestrator.git.repository import GitRepo
from shiftboss.orchestrator.run.held_out_files import count_visible_tests, find_exposed, read_files
from shiftboss.orchestrator.run.plan_branches import repo_path
from shiftboss.orchestrator.run.plan_file import PlanFile
from shiftboss.orchestrator.run.run_context import RunPaths
from shiftboss.protocol.plan import Plan, PlanAgent, PlanRepo
from shiftboss.rules.documents.typed_files import problem_lines
from shiftboss.rules.documents.wording import did_you_mean
from shiftboss.rules.plans.graph import agent_name
from shiftboss.rules.plans.held_out import judge_exposed, judge_visible_tests
from shiftboss.rules.plans.preflight import (
    PlanFacts,
    RepoFacts,
    judge,
    judge_expectations,
    programs_of,
    target_of,
)

# What git says of a folder that belongs to no repository.
_NO_REPOSITORY: Final = "fatal: not a git repository"
# The files in a git folder that show what git is in the middle of.
_UNFINISHED: Final = {
    "MERGE_HEAD": "a merge",
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "index.lock": "a git command (index.lock exists)",
}


class Preflight(NamedTuple):
    """Lines to show, `FILE:LINE: KEY: WHAT` where they are about the plan. A plan with problems
    cannot run here."""

    problems: list[str]
    warnings: list[str]


async def preflight(
    loaded: PlanFile,
    plan: Plan,
    state: Path,
    trees: Path | None = None,
    *,
    agents: bool = True,
    repos: bool = True,
    tests: bool = False,
) -> Preflight:
    """`plan` is the loaded one with the options of the command. Without `agents` or `repos`, what
    only the machine of the run can have is left out, so that CI can check a plan. With
    `tests`, what the plan says about tests is compared with those that are there."""
    facts = PlanFacts(
        repos=await _read_repos(plan) if repos else {},
        unavailable=dict(_unavailable(plan)) if agents else {},
        missing_programs=_missing_programs(plan) if agents else (),
    )
    name, document = str(loaded.path), loaded.document
    findings = list(judge(plan, facts))
    if repos:
        findings += judge_exposed(await find_exposed(plan, loaded.path))
    if repos and tests:
        findings += judge_visible_tests(plan, await count_visible_tests(plan))
        findings += judge_expectations(plan, await read_files(plan))
    warnings = [document.problem(key, text) for key, text, is_warning in findings if is_warning]
    problems = [document.problem(key, text) for key, text, is_warning in findings if not is_warning]
    if repos:
        problems += [*loaded.missing_folders, *loaded.held_out_problems]
    about_folders = [*_judge_state(state), *_judge_trees(state, plan, trees)] if repos else []
    return Preflight(
        [*problem_lines(name, problems), *about_folders],
        [*loaded.warnings, *problem_lines(name, warnings)],
    )


async def _read_repos(plan: Plan) -> dict[str, RepoFacts]:
    there = {name: repo for name, repo in plan.repos.items() if repo_path(repo).is_dir()}
    facts = await asyncio.gather(*(_read_repo(repo) for repo in there.values()))
    return dict(zip(there, facts, strict=True))


async def _read_repo(repo: PlanRepo) -> RepoFacts:
    try:
        git_repo = await GitRepo.at(repo_path(repo))
        facts = await _read_branches(git_repo, repo_path(repo))
        return await _read_checkout(git_repo, facts, target_of(repo, facts))
    except ShiftbossError as error:
        return RepoFacts(unusable=_why_unusable(repo_path(repo), error))


def _why_unusable(folder: Path, error: ShiftbossError) -> str:
    if _NO_REPOSITORY in error.detail:
        return f"{folder} is not a git repository; create one: git init {shlex.quote(str(folder))}"
    return "; ".join(filter(None, [error.detail, error.hint]))


async def _read_branches(git_repo: GitRepo, folder: Path) -> RepoFacts:
    checkout = await asyncio.to_thread(GitCheckout.at, folder)
    object_format, refs, head = await asyncio.gather(
        git_repo.run(["rev-parse", "--show-object-format"]),
        git_repo.run(["for-each-ref", "--format=%(refname)", "refs/heads", "refs/remotes"]),
        _head(git_repo, checkout),
    )
    names = refs.out.decode(errors="replace").splitlines()
    heads = _short_names(names, "refs/heads/")
    is_long = object_format.out.strip() == b"sha256"
    return RepoFacts(
        unusable=f"{folder} {LONG_NAMES}; {LONG_NAMES_HINT}" if is_long else None,
        head=head,
        branches=heads,
        remote_branches=_short_names(names, "refs/remotes/"),
        has_commits=bool(heads) or await _has_commit(git_repo),
    )


def _short_names(refs: Collection[str], prefix: str) -> frozenset[str]:
    return frozenset(ref.removeprefix(prefix) for ref in refs if ref.startswith(prefix))


async def _has_commit(git_repo: GitRepo) -> bool:
    """On any ref, or at a detached HEAD."""
    output = await git_repo.run(["rev-list", "--max-count=1", "--all", "HEAD", "--"])
    return bool(output.out.strip())


async def _head(git_repo: GitRepo, checkout: GitCheckout) -> str | None:
    """The branch of this checkout. A folder without files of its own has that of the repository."""
    admin = checkout.admin if checkout.admin.is_dir() else git_repo.common
    output = await git_repo.run(
        ["symbolic-ref", "--quiet", "--short", "HEAD"], environment={"GIT_DIR": str(admin)}
    )
    return output.out.decode(errors="replace").strip() or None if output.code == 0 else None


async def _read_checkout(git_repo: GitRepo, facts: RepoFacts, target: str | None) -> RepoFacts:
    """What is in the way of landing, where the target is checked out."""
    if facts.unusable is not None or not facts.has_commits or target is None:
        return facts
    checkout = (await git_repo.checkouts_by_branch()).get(target)
    if checkout is None or not await asyncio.to_thread(checkout.folder.is_dir):
        return facts
    changes = await checkout.changes()
    unfinished = await asyncio.to_thread(_unfinished, checkout.admin)
    return facts._replace(changed=frozenset(line[3:] for line in changes), unfinished=unfinished)


def _unfinished(admin: Path) -> str | None:
    return next((what for file, what in _UNFINISHED.items() if (admin / file).exists()), None)


def _unavailable(plan: Plan) -> Iterator[tuple[str, str]]:
    for name in dict.fromkeys(agent_name(plan, task) for task in plan.tasks):
        settings = plan.agents.get(name) or PlanAgent(kind=name)
        if settings.kind not in AGENTS:
            guess = did_you_mean(name, [*plan.agents, *AGENTS])
            yield name, f"there is no agent {name!r}{guess}"
        elif (reason := AGENTS[settings.kind].why_unavailable(settings)) is not None:
            yield name, reason


def _missing_programs(plan: Plan) -> Collection[str]:
    programs = {program for _, program in programs_of(plan)}
    return {program for program in programs if shutil.which(program) is None}


def _judge_state(state: Path) -> Iterator[str]:
    existing = _nearest_existing(state.absolute())
    if not _is_writable(existing):
        yield (
            f"the run cannot keep its state in {state}, because {existing} is not a folder that "
            "you can write to; choose a database in another folder with --db FILE"
        )


def _nearest_existing(folder: Path) -> Path:
    return next(parent for parent in (folder, *folder.parents) if parent.exists())


def _is_writable(folder: Path) -> bool:
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)


def _judge_trees(state: Path, plan: Plan, trees: Path | None) -> Iterator[str]:
    assert plan.swarm is not None, "read_plan_file sets the swarm"
    try:
        folder = RunPaths.of(state, plan.swarm, trees).trees
    except InvalidRequest as error:
        yield f"--trees: {error.detail}; {error.hint}"
        return
    existing = _nearest_existing(folder)
    if not _is_writable(existing):
        yield (
            f"--trees: no work trees can be made in {folder}, because {existing} is not a folder "
            "that you can write to; choose another one with --trees DIR"
        )
