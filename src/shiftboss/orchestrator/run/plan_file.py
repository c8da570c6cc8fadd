"""Reads a plan file. Relative folders in it start at the folder of the file."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from shiftboss.agents.registry import AGENTS
from shiftboss.errors import InvalidPlan
from shiftboss.evidence.survey.policy_file import default_policy_file, load_policy
from shiftboss.orchestrator.run.held_out_files import resolve_sources, source_problems
from shiftboss.protocol.plan import Plan, PlanRepo
from shiftboss.protocol.policy import Policy
from shiftboss.rules.documents.typed_files import problem_lines
from shiftboss.rules.documents.yaml_lines import Problem, YamlDocument
from shiftboss.rules.plans.plan_file import PlanText, invalid_plan, read_plan
from shiftboss.system.files import read_text

_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9._-]+")
_NAME_CHARACTERS_MAX: Final = 20


class PlanFile(NamedTuple):
    """`policy` is the shiftboss.yaml beside the plan, if there is one. `warnings` are lines to
    show. `missing_folders` and `held_out_problems` are problems for a run, but not for `shiftboss
    plan show`. `document` has the line of every key."""

    path: Path
    plan: Plan
    policy: Policy | None
    warnings: list[str]
    missing_folders: list[Problem]
    held_out_problems: list[Problem]
    document: YamlDocument


def load_plan(path: Path, kinds: Collection[str] = AGENTS) -> Plan:
    """The plan, with absolute folders and a swarm. Raises InvalidPlan with every problem (file,
    line and key), which includes repositories and held-out files that do not exist."""
    plan_file = read_plan_file(path, kinds)
    problems = [*plan_file.missing_folders, *plan_file.held_out_problems]
    if problems:
        raise invalid_plan(str(path), problems)
    return plan_file.plan


def read_plan_file(path: Path, kinds: Collection[str] = AGENTS) -> PlanFile:
    """Raises InvalidPlan, and InvalidPolicy for problems of the policy beside the plan."""
    text = read_plan(read_text(path, "plan", InvalidPlan), str(path), kinds)
    folder = path.resolve().parent
    policy_file = default_policy_file(folder)
    policy = None if policy_file is None else load_policy(policy_file)
    repos = {
        name: _resolve_repo(name, repo, folder, policy) for name, repo in text.plan.repos.items()
    }
    problems = list(_path_problems(text, repos))
    if problems:
        raise invalid_plan(str(path), problems)
    plan = text.plan.model_copy(
        update={
            "repos": repos,
            "swarm": text.plan.swarm or default_swarm_id(path),
            "tasks": [resolve_sources(task, folder) for task in text.plan.tasks],
        }
    )
    return PlanFile(
        path,
        plan,
        policy,
        problem_lines(str(path), text.warnings),
        list(_missing_folders(text, plan)),
        [text.document.problem(*problem) for problem in source_problems(plan)],
        text.document,
    )


def default_swarm_id(path: Path) -> str:
    """The swarm of a plan that names none, derived from the path of the file: the same file always
    gets the same swarm, and files of the same name in different folders get different ones."""
    file = path.resolve()
    parts = [_NOT_IN_NAMES.sub("-", part).strip("-._") for part in (file.parent.name, file.stem)]
    short_parts = [part[:_NAME_CHARACTERS_MAX].strip("-._") for part in parts]
    digest = hashlib.sha256(str(file).encode(errors="surrogateescape")).hexdigest()[:8]
    return "-".join([*filter(None, short_parts), digest])


def _resolve_repo(name: str, repo: PlanRepo, folder: Path, policy: Policy | None) -> PlanRepo:
    """Make the path absolute; take path and branch from the policy's repo of that name."""
    policy_repo = None if policy is None else policy.repos.get(name)
    path = None if repo.path is None else str((folder / repo.path).resolve())
    if policy_repo is None or (path is not None and path != policy_repo.path):
        return repo.model_copy(update={"path": path})
    return repo.model_copy(
        update={"path": policy_repo.path, "branch": repo.branch or policy_repo.branch}
    )


def _path_problems(text: PlanText, repos: dict[str, PlanRepo]) -> Iterator[Problem]:
    """Two names for one folder would hide that two tasks own the same files."""
    name_of: dict[str, str] = {}
    for name, repo in repos.items():
        if repo.path is None:
            yield text.document.problem(
                ("repos", name),
                "has no path, and no shiftboss.yaml beside the plan gives the repo one",
            )
        elif (first := name_of.setdefault(repo.path, name)) != name:
            yield text.document.problem(
                ("repos", name, "path"), f"is the folder of {first!r} as well"
            )


def _missing_folders(text: PlanText, plan: Plan) -> Iterator[Problem]:
    for name, repo in plan.repos.items():
        assert repo.path is not None
        if not Path(repo.path).is_dir():
            yield text.document.problem(
                ("repos", name, "path"), f"there is no folder {repo.path}; clone the repo first"
            )
