"""Reading a plan file. What it says of folders is meant from where it lies."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from shiftboss.agents.registry import AGENTS
from shiftboss.errors import InvalidPlan
from shiftboss.evidence.survey.policy_file import default_policy_file, load_policy
from shiftboss.protocol.plan import Plan, PlanRepo
from shiftboss.protocol.policy import Policy
from shiftboss.rules.documents.typed_files import told_lines
from shiftboss.rules.documents.yaml_lines import Problem
from shiftboss.rules.plans.plan_file import PlanText, invalid_plan, read_plan
from shiftboss.system.files import read_text

_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9._-]+")
_NAME_CHARACTERS_MAX: Final = 20


class PlanFile(NamedTuple):
    """`policy` is the shiftboss.yaml beside the plan, if there is one. `warnings` are lines for
    people, `folders` those that are missing: a run needs them, a look at the plan does not."""

    path: Path
    plan: Plan
    policy: Policy | None
    warnings: list[str]
    folders: list[Problem]


def load_plan(path: Path, kinds: Collection[str] = AGENTS) -> Plan:
    """With absolute folders, and a swarm. Raises InvalidPlan with every problem: its file, line and
    key; so it does for a repository that is not there."""
    found = read_plan_file(path, kinds)
    if found.folders:
        raise invalid_plan(str(path), found.folders)
    return found.plan


def read_plan_file(path: Path, kinds: Collection[str] = AGENTS) -> PlanFile:
    """Raises InvalidPlan, and InvalidPolicy for what is wrong with the policy beside it."""
    text = read_plan(read_text(path, "plan", InvalidPlan), str(path), kinds)
    folder = path.resolve().parent
    policy_file = default_policy_file(folder)
    policy = None if policy_file is None else load_policy(policy_file)
    repos = {name: _placed(name, repo, folder, policy) for name, repo in text.plan.repos.items()}
    problems = list(_misplaced(text, repos))
    if problems:
        raise invalid_plan(str(path), problems)
    plan = text.plan.model_copy(update={"repos": repos, "swarm": text.plan.swarm or swarm_of(path)})
    missing = list(_missing(text, plan))
    return PlanFile(path, plan, policy, told_lines(str(path), [*text.warnings, *missing]), missing)


def swarm_of(path: Path) -> str:
    """The swarm of a plan that names none: the same file again is the same swarm, and another file
    of the same name in another folder is another."""
    place = path.resolve()
    parts = [_NOT_IN_NAMES.sub("-", one).strip("-._") for one in (place.parent.name, place.stem)]
    words = [one[:_NAME_CHARACTERS_MAX].strip("-._") for one in parts]
    digest = hashlib.sha256(str(place).encode(errors="surrogateescape")).hexdigest()[:8]
    return "-".join([*filter(None, words), digest])


def _placed(name: str, repo: PlanRepo, folder: Path, policy: Policy | None) -> PlanRepo:
    """With its folder in full, and with what the policy says of the same repo."""
    known = None if policy is None else policy.repos.get(name)
    path = None if repo.path is None else str((folder / repo.path).resolve())
    if known is None or (path is not None and path != known.path):
        return repo.model_copy(update={"path": path})
    return repo.model_copy(update={"path": known.path, "branch": repo.branch or known.branch})


def _misplaced(text: PlanText, repos: dict[str, PlanRepo]) -> Iterator[Problem]:
    """Two names for one folder would hide that two tasks own the same files."""
    known: dict[str, str] = {}
    for name, repo in repos.items():
        if repo.path is None:
            yield text.document.problem(
                ("repos", name),
                "has no path, and no shiftboss.yaml beside the plan gives the repo one",
            )
        elif (first := known.setdefault(repo.path, name)) != name:
            yield text.document.problem(
                ("repos", name, "path"), f"is the folder of {first!r} as well"
            )


def _missing(text: PlanText, plan: Plan) -> Iterator[Problem]:
    for name, repo in plan.repos.items():
        assert repo.path is not None
        if not Path(repo.path).is_dir():
            yield text.document.problem(
                ("repos", name, "path"), f"there is no folder {repo.path}; clone the repo first"
            )
