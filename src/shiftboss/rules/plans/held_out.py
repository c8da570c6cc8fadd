"""Held-out tests of a plan: whether agents could see them, and which tasks should have some.

The facts are read by `orchestrator.run.held_out_files`; this module judges them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from shiftboss.protocol.plan import Plan, PlanTask
from shiftboss.rules.claims.criteria import parse_criterion
from shiftboss.rules.claims.held_out import runs_tests
from shiftboss.rules.claims.kept_tests import is_test_file
from shiftboss.rules.documents.wording import pluralize
from shiftboss.rules.documents.yaml_lines import KeyPath
from shiftboss.rules.paths.patterns import normalize_path, parents
from shiftboss.rules.plans.preflight import PreflightFinding

# Fewer tests than these can be passed by writing down their answers.
VISIBLE_TESTS_MIN: Final = 3
_ELSEWHERE: Final = "keep the plan and its held-out files outside of the repository"


Exposure = Literal["tracked", "copied", "untracked", "stored"]


class ExposedFile(NamedTuple):
    """A plan with held-out tests, or a file of them, that agents in a repo could see. `path` is its
    key in the plan. Work trees have the files that are tracked or copied. `stored`: the file itself
    is elsewhere, but git has its content, for example in an older commit."""

    path: KeyPath
    file: str
    repo: str
    how: Exposure


def judge_exposed(files: Iterable[ExposedFile]) -> Iterator[PreflightFinding]:
    for path, file, repo, how in files:
        if how == "tracked":
            message = f"git tracks {file}, so that the agents in {repo} see it; {_ELSEWHERE}"
        elif how == "copied":
            message = f"{file} is copied into every work tree of {repo}; {_ELSEWHERE}"
        elif how == "stored":
            message = (
                f"git has the content of {file} in {repo}, where agents can find it; hold out "
                "other tests"
            )
        else:
            message = f"{file} is in the folder of {repo}, where agents may look; {_ELSEWHERE}"
        yield PreflightFinding(path, message, is_warning=how in ("untracked", "stored"))


def named_test_paths(task: PlanTask) -> list[str]:
    """What may be files or folders among the words of the criteria that run tests."""
    words = [word for text in task.criteria if runs_tests(text) for word in _words(text)]
    return list(dict.fromkeys(path for word in words for path in _paths(word)))


def _words(criterion: str) -> Sequence[str]:
    parsed = parse_criterion(criterion)
    return parsed.argv[1:] if parsed is not None else ()


def _paths(word: str) -> Iterator[str]:
    """`tests/test_a.py::test_b` names a file, and so does the module `tests.test_a`. The word of
    `make test` and `npm test` is a command, even if there is a folder of this name."""
    if word.startswith("-") or word == "test":
        return
    try:
        path = normalize_path(word.partition("::")[0]).removesuffix("/")
    except ValueError:
        return
    yield path
    if "/" not in path and is_test_file(f"{path.replace('.', '/')}.py"):
        yield f"{path.replace('.', '/')}.py"


def files_named_by(task: PlanTask, files: Iterable[str]) -> list[str] | None:
    """Those of the repository's `files` that the test criteria name, or that are in a folder they
    name. None if they name no tests in particular: a script such as `run.sh` runs tests that are
    elsewhere, and doctests are in any file."""
    named = set(named_test_paths(task))
    below = [file for file in files if file in named or not named.isdisjoint(parents(file))]
    tests = [file for file in below if is_test_file(file)]
    return tests if tests or any(map(is_test_file, named)) else None


def judge_visible_tests(plan: Plan, counts: Mapping[str, int]) -> Iterator[PreflightFinding]:
    """`counts` has the number of tests in the files that the test criteria of a task name, at the
    commit where its work starts."""
    for index, task in enumerate(plan.tasks):
        count = counts.get(task.id)
        if task.held_out is None and count is not None and count < VISIBLE_TESTS_MIN:
            tests = "no test" if count == 0 else f"only {pluralize(count, 'test')}"
            yield PreflightFinding(
                ("tasks", index),
                f"its test criteria name files that have {tests} so far, so work that only looks "
                "right may pass; add tests that the agent does not see with the key `held_out`",
                is_warning=True,
            )
