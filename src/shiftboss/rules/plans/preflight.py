"""Whether a plan can run here: its repositories, branches, agents and programs.

The facts are read by `orchestrator.run.preflight`; this module judges them.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from shiftboss.protocol.plan import Plan, PlanRepo, PlanTask
from shiftboss.rules.claims.criteria import parse_command, parse_criterion
from shiftboss.rules.claims.test_runs.runners import runner_of
from shiftboss.rules.documents.wording import did_you_mean
from shiftboss.rules.documents.yaml_lines import KeyPath
from shiftboss.rules.paths.branch_names import task_branch
from shiftboss.rules.paths.patterns import Scope
from shiftboss.rules.plans.graph import agent_name, repo_of

_NAMED_MAX: Final = 5
_USUAL_BRANCHES: Final = ("main", "master", "trunk")
# Git keeps branches as paths: a branch of this name leaves no room for those of tasks.
_PREFIX_OF_TASKS: Final = task_branch("x").partition("/")[0]


class RepoFacts(NamedTuple):
    """The state of an existing folder.

    `unusable`: why no task can run in it, else None. `head` is the branch that is checked out, None
    for a detached HEAD; `branches` are those with commits. `changed` are files with uncommitted
    changes where the target is checked out, and `unfinished` names what git is in the middle of
    there, such as a merge.
    """

    unusable: str | None = None
    head: str | None = None
    branches: frozenset[str] = frozenset()
    remote_branches: frozenset[str] = frozenset()
    has_commits: bool = True
    changed: frozenset[str] = frozenset()
    unfinished: str | None = None


class PlanFacts(NamedTuple):
    """`repos` are by name, without those whose folder does not exist. `unavailable` maps agents to
    the reason why they cannot be started. `missing_programs` are not on the PATH."""

    repos: Mapping[str, RepoFacts]
    unavailable: Mapping[str, str]
    missing_programs: Collection[str]


class PreflightFinding(NamedTuple):
    """`path` is the key of the plan. A warning does not keep the plan from running."""

    path: KeyPath
    message: str
    is_warning: bool = False


def judge(plan: Plan, facts: PlanFacts) -> Iterator[PreflightFinding]:
    for name, repo_facts in facts.repos.items():
        yield from _judge_repo(name, plan.repos[name], repo_facts)
        yield from _judge_checkout(plan, name, repo_facts)
    yield from _judge_agents(plan, facts.unavailable)
    yield from _judge_programs(plan, facts.missing_programs)
    yield from _judge_criteria(plan)


def target_of(repo: PlanRepo, facts: RepoFacts) -> str | None:
    """The branch that work lands on: the one that the plan names, or the one checked out."""
    return repo.branch or facts.head


def _judge_repo(name: str, repo: PlanRepo, facts: RepoFacts) -> Iterator[PreflightFinding]:
    git = f"git -C {shlex.quote(repo.path or '.')}"
    target = target_of(repo, facts)
    if facts.unusable is not None:
        yield PreflightFinding(("repos", name, "path"), facts.unusable)
    elif not facts.has_commits:
        first = f"{git} commit --allow-empty -m 'First commit'"
        yield PreflightFinding(
            ("repos", name, "path"), f"{repo.path} has no commits to start from; run: {first}"
        )
    elif target is None:
        yield PreflightFinding(
            ("repos", name, "branch"),
            f"{repo.path} has no branch checked out (detached HEAD); set the branch that work "
            f"lands on, or run: {git} switch {_some_branch(facts.branches)}",
        )
    elif target not in facts.branches:
        yield PreflightFinding(
            ("repos", name, "branch"), _no_branch(target, facts, f"{git} branch")
        )
    if _PREFIX_OF_TASKS in facts.branches:
        rename = f"{git} branch -m {_PREFIX_OF_TASKS} {_PREFIX_OF_TASKS}-old"
        yield PreflightFinding(
            ("repos", name, "path"),
            f"the branch {_PREFIX_OF_TASKS!r} is in the way of the tasks' branches, such as "
            f"{task_branch('TASK')!r}; rename it: {rename}",
        )


def _some_branch(branches: Collection[str]) -> str:
    """A branch to check out, or the option that makes one."""
    if not branches:
        return f"-c {_USUAL_BRANCHES[0]}"
    usual = [name for name in _USUAL_BRANCHES if name in branches]
    return shlex.quote([*usual, *sorted(branches)][0])


def _no_branch(target: str, facts: RepoFacts, create: str) -> str:
    guess = did_you_mean(target, facts.branches)
    if guess:
        return f"there is no branch {target!r}{guess}"
    starts = sorted(name for name in facts.remote_branches if name.endswith(f"/{target}"))
    preferred = [name for name in starts if name == f"origin/{target}"]
    command = " ".join([create, *map(shlex.quote, [target, *[*preferred, *starts][:1]])])
    return f"there is no branch {target!r}; create it: {command}"


def _judge_checkout(plan: Plan, name: str, facts: RepoFacts) -> Iterator[PreflightFinding]:
    """Nothing here stops a run, but its work may not land until the user has cleaned up."""
    path = plan.repos[name].path
    if facts.unfinished is not None:
        yield PreflightFinding(
            ("repos", name, "path"),
            f"{facts.unfinished} is not finished in {path}; no work lands there before it is",
            is_warning=True,
        )
    for index, task in enumerate(plan.tasks):
        if repo_of(plan, task) == name and (files := _owned(task, facts.changed)):
            yield PreflightFinding(
                ("tasks", index, "files_owned"),
                f"{path} has uncommitted changes in {_listed(files)}: the agent does not see them, "
                "and its work cannot land over them; commit or stash them first",
                is_warning=True,
            )


def _owned(task: PlanTask, files: Collection[str]) -> list[str]:
    if not files:
        return []
    scope = Scope(task.files_owned)
    return sorted(file for file in files if scope.covers(file))


def _judge_agents(plan: Plan, unavailable: Mapping[str, str]) -> Iterator[PreflightFinding]:
    for name, reason in unavailable.items():
        users = [task for task in plan.tasks if agent_name(plan, task) == name]
        if users:
            tasks = f"task{'s' * (len(users) > 1)} {_listed([task.id for task in users])}"
            yield PreflightFinding(
                _agent_key(plan, name), f"{name} cannot be started ({tasks}): {reason}"
            )


def _agent_key(plan: Plan, name: str) -> KeyPath:
    """Where the plan names the agent first."""
    if name in plan.agents:
        return ("agents", name)
    if name == plan.agent:
        return ("agent",)
    index = next(index for index, task in enumerate(plan.tasks) if task.agent == name)
    return ("tasks", index, "agent")


def programs_of(plan: Plan) -> Iterator[tuple[KeyPath, str]]:
    """The program of every command in the plan that has to be on the PATH, with its key. A path
    in the repository is not one: a task may create it."""
    for name, repo in plan.repos.items():
        commands: list[tuple[KeyPath, list[str]]] = [
            (("repos", name, "setup"), repo.setup),
            (("repos", name, "verification", "setup"), repo.verification.setup),
        ]
        for key, texts in commands:
            for index, text in enumerate(texts):
                yield from _program((*key, index), parse_command(text))
    for number, task in enumerate(plan.tasks):
        for index, text in enumerate(task.criteria):
            criterion = parse_criterion(text)
            if criterion is not None:
                yield from _program(("tasks", number, "criteria", index), criterion.argv)


def _program(key: KeyPath, argv: tuple[str, ...]) -> Iterator[tuple[KeyPath, str]]:
    if "/" not in argv[0] or argv[0].startswith("/"):
        yield key, argv[0]


def _judge_programs(plan: Plan, missing: Collection[str]) -> Iterator[PreflightFinding]:
    for key, program in programs_of(plan):
        if program in missing:
            yield PreflightFinding(
                key,
                f"{program} is not on the PATH, so this command fails unless the server runs on "
                "another machine",
                is_warning=True,
            )


def _judge_criteria(plan: Plan) -> Iterator[PreflightFinding]:
    """A runner that the code under test ends early exits with 0 as well: only its report tells."""
    for number, task in enumerate(plan.tasks):
        for index, text in enumerate(task.criteria):
            criterion = parse_criterion(text)
            if criterion is None or criterion.kind == "tests":
                continue
            runner = runner_of(criterion.argv)
            if runner is not None:
                yield PreflightFinding(
                    ("tasks", number, "criteria", index),
                    f"only the exit code of {runner} counts here, and the code under test can make "
                    "it 0; to have the tests counted and tried out, write "
                    f"`Tests pass: {shlex.join(criterion.argv)}`",
                    is_warning=True,
                )


def _listed(names: list[str]) -> str:
    more = len(names) - _NAMED_MAX
    shown = ", ".join(names[:_NAMED_MAX])
    return f"{shown} and {more} more" if more > 0 else shown


def changes_expectations(plan: Plan, repo: str) -> bool:
    return any(_patterns(plan, repo))


def judge_expectations(
    plan: Plan, files: Mapping[str, Sequence[str]]
) -> Iterator[PreflightFinding]:
    """`files` are those of each repo where work starts. Repos that are not named are left out."""
    for repo, there in files.items():
        for key, pattern in _patterns(plan, repo):
            if not any(map(Scope([pattern]).covers, there)):
                yield PreflightFinding(
                    key,
                    f"{pattern} matches no file of the repo {repo}, so no test may change what it "
                    "expects",
                    is_warning=True,
                )


def _patterns(plan: Plan, repo: str) -> Iterator[tuple[KeyPath, str]]:
    """With their keys. What a task depends on may first make the files that it names."""
    for index, pattern in enumerate(plan.repos[repo].verification.expectations_change):
        yield ("repos", repo, "verification", "expectations_change", index), pattern
    for number, task in enumerate(plan.tasks):
        if repo_of(plan, task) == repo and not task.depends_on:
            for index, pattern in enumerate(task.expectations_change):
                yield ("tasks", number, "expectations_change", index), pattern
