"""Whether the patterns of `expectations_change` of a plan match anything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from shiftboss.protocol.plan import Plan
from shiftboss.rules.documents.yaml_lines import KeyPath
from shiftboss.rules.paths.patterns import Scope
from shiftboss.rules.plans.graph import repo_of
from shiftboss.rules.plans.preflight import PreflightFinding


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
