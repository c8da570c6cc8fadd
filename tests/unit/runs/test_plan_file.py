"""A plan is read completely or not at all, and all its problems are reported together."""

from __future__ import annotations

import re

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from shiftboss.errors import InvalidPlan
from shiftboss.protocol.handoffs import MutantsRequired, VerificationPolicy
from shiftboss.rules.documents.yaml_lines import Problem
from shiftboss.rules.plans.graph import agent_name
from shiftboss.rules.plans.plan_file import PlanText, read_plan

NAME = "plan.yaml"
KINDS = ("claude", "codex", "command")
TASK = "{id: a, title: A, files_owned: [a.py]}"


def read(text: str) -> PlanText:
    return read_plan(text, NAME, KINDS)


def problems(text: str) -> list[str]:
    with pytest.raises(InvalidPlan) as caught:
        read(text)
    found = caught.value.facts["problems"]
    assert isinstance(found, list)
    assert caught.value.hint is not None
    return found


def plan(*tasks: str, repos: str = "{app: {path: app}}", more: str = "") -> str:
    """A plan whose first task is in line 4."""
    listed = "".join(f"- {task}\n" for task in tasks or (TASK,))
    return f"goal: G\nrepos: {repos}\ntasks:\n{listed}{more}"


def warnings(text: str) -> list[Problem]:
    return read(text).warnings


def test_a_minimal_plan_gets_the_defaults() -> None:
    made = read(plan()).plan
    task = made.tasks[0]
    assert (made.agent, made.workers, made.auto_merge, made.attempts) == ("claude", 4, True, 3)
    assert (task.complexity, task.timeout, task.budget.tokens) == ("normal", 1800, None)
    assert (made.landing, made.review, task.review) == ("merge", "none", None)
    assert agent_name(made, task) == "claude"
    assert warnings(plan()) == []


@pytest.mark.requirement("OWN-13")
def test_a_plan_chooses_how_tests_are_tested() -> None:
    """YAML reads `on` and `off` as booleans."""

    def verification(text: str) -> VerificationPolicy:
        return (
            read(plan(repos=f"{{app: {{path: app, verification: {text}}}}}"))
            .plan.repos["app"]
            .verification
        )

    off = verification("{mutants: off, canaries: off, sandbox: off}")
    assert (off.mutants, off.canaries, off.sandbox) == ("off", "off", "off")
    required = verification("{mutants: {require: 0.6}, mutant_seconds: 300, canaries: on}")
    assert required.mutants == MutantsRequired(require=0.6)
    assert (required.mutant_seconds, required.canaries) == (300, "on")


@pytest.mark.requirement("OWN-13")
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("mutants: on", "mutants: must be 'off', 'report' or a mapping such as {require: 0.6}"),
        ("mutants: 0.6", "mutants: must be 'off', 'report' or a mapping such as {require: 0.6}"),
        ("mutants: {require: 2}", "mutants.require: must be less than or equal to 1"),
        (
            "mutants: {requires: 0.6, require: 1}",
            "mutants.requires: is not a known key; did you mean 'require'?",
        ),
        ("mutants: {}", "mutants.require: is missing"),
        ("test_summary: all passed", "test_summary: must contain {passed}"),
    ],
)
def test_a_mistake_in_the_verification_is_one_problem_without_names_of_types(
    text: str, problem: str
) -> None:
    (found,) = problems(plan(repos=f"{{app: {{path: app, verification: {{{text}}}}}}}"))
    assert found.partition(": ")[2] == f"repos.app.verification.{problem}"


@pytest.mark.requirement("OWN-12")
def test_a_plan_chooses_how_work_lands_and_who_reviews_it() -> None:
    more = "landing: squash\nreview: required\n"
    repos = "{app: {path: app, landing: merge}}"
    made = read(
        plan("{id: a, title: A, files_owned: [a.py], review: none}", repos=repos, more=more)
    )
    assert (made.plan.landing, made.plan.repos["app"].landing) == ("squash", "merge")
    assert (made.plan.review, made.plan.tasks[0].review) == ("required", "none")
    (problem,) = problems(plan(more="landing: rebase\n"))
    assert "landing" in problem


BROKEN = """\
goal: ""
repos:
  app: {pth: app}
  a b: {path: b}
tasks:
- id: 1
  title: A
- id: build
  title: B
  repo: apq
  file_owned: [b.py]
  files_owned: [../b.py]
  depends_on: [biuld, build]
  complexity: huge
- id: test
  title: C
  files_owned: []
  budget: {tokens: 0, dolars: 1}
workers: 0
auto_merge: maybe
"""


def test_every_problem_is_named_with_its_line_and_key() -> None:
    unlike = (
        "is not a valid name: must consist of letters or digits or . or _ or -, "
        "start with letters or digits, and have at most 100 characters"
    )
    quoted = "must be a string; put it in quotes if it looks like a number or a date"
    assert problems(BROKEN) == [
        f"{NAME}:1: goal: must not be empty",
        f"{NAME}:3: repos.app.pth: is not a known key; did you mean 'path'?",
        f"{NAME}:4: repos.a b: {unlike}",
        f"{NAME}:6: tasks.0.files_owned: is missing",
        f"{NAME}:6: tasks.0.id: {quoted}",
        f"{NAME}:6: tasks.0: needs a repo, because the plan has several (app, a b)",
        f"{NAME}:10: tasks.1.repo: there is no repo 'apq'; did you mean 'app'?",
        f"{NAME}:11: tasks.1.file_owned: is not a known key; did you mean 'files_owned'?",
        f"{NAME}:12: tasks.1.files_owned.0: '../b.py' contains ..; write the path without it",
        f"{NAME}:13: tasks.1.depends_on: the tasks depend on each other in a cycle: build -> build",
        f"{NAME}:13: tasks.1.depends_on.0: there is no task 'biuld'; did you mean 'build'?",
        f"{NAME}:14: tasks.1.complexity: must be 'low', 'normal' or 'high'",
        f"{NAME}:15: tasks.2: needs a repo, because the plan has several (app, a b)",
        f"{NAME}:18: tasks.2.budget.dolars: is not a known key; did you mean 'dollars'?",
        f"{NAME}:18: tasks.2.budget.tokens: must be greater than or equal to 1",
        f"{NAME}:19: workers: must be greater than or equal to 1",
        f"{NAME}:20: auto_merge: must be true or false",
    ]


def test_an_empty_file_lacks_what_a_plan_needs() -> None:
    assert problems("") == [
        f"{NAME}:1: goal: is missing",
        f"{NAME}:1: repos: is missing",
        f"{NAME}:1: tasks: is missing",
    ]


def task(members: str) -> str:
    return plan(f"{{title: A, files_owned: [a], {members}}}")


def repo(members: str) -> str:
    return plan(repos=f"{{app: {{path: app, {members}}}}}")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (task("id: 'a:b'"), "4: tasks.0.id: 'a:b' contains a colon, which git does not allow"),
        (task("id: a..b"), "4: tasks.0.id: 'a..b' contains .., which git"),
        (task("id: a.lock"), "4: tasks.0.id: 'a.lock' ends with .lock"),
        (task("id: a."), "4: tasks.0.id: 'a.' ends with a dot"),
        (task("id: packet-7"), "4: tasks.0.id: 'packet-7' is reserved for work packets"),
        (task("id: a-merge-1"), "4: tasks.0.id: 'a-merge-1' ends like the id of a merge task"),
        (task("id: -a"), "4: tasks.0.id: must consist of letters or digits"),
        (plan(TASK, TASK), "5: tasks.1.id: 'a' is already the id of an earlier task"),
        (
            plan(TASK, "{id: A, title: A, files_owned: [b]}"),
            "5: tasks.1.id: differs from 'a' only by letter case",
        ),
        (task("id: a, agent: cluade"), "4: tasks.0.agent: there is no agent 'cluade'; did you"),
        (task("id: a, agent: command"), "4: tasks.0.agent: the agent 'command' needs a command"),
        (task("id: a, timeout: 0m"), "4: tasks.0.timeout: must be longer than 0 seconds"),
        (task("id: a, depends_on: [a]"), "4: tasks.0.depends_on: the tasks depend on each other"),
        (
            task("id: a, files_readonly: [./a]"),
            "4: tasks.0.files_owned.0: 'a' is also in file",
        ),
        (task("id: a, files_readonly: [/b]"), "4: tasks.0.files_readonly.0: '/b' is absolute"),
        (
            task("id: a, criteria: ['Tests pass: make && ls']"),
            "4: tasks.0.criteria.0: 'make && ls' contains '&&'",
        ),
        (
            task("id: a, description: 'Tests pass: a | b'"),
            "4: tasks.0.description: contains a criterion that cannot be checked: 'a | b' cont",
        ),
        (
            plan(more="agents: {x: {kind: clod}}\n"),
            "5: agents.x.kind: there is no agent kind",
        ),
        (plan(more="agents: {x: {kind: command}}\n"), "5: agents.x: the kind command needs a"),
        (
            plan(more="agents: {x: {kind: codex, environment: {SHIFTBOSS_URL: x}}}\n"),
            "5: agents.x.environment.SHIFTBOSS_URL: cannot be set here",
        ),
        (plan(more="agent: nobody\n"), "5: agent: there is no agent 'nobody'"),
        (plan(more=f"swarm: {'s' * 61}\n"), "5: swarm: must have at most 60 characters"),
        (repo("branch: a..b"), "2: repos.app.branch: 'a..b' is not a valid branch name"),
        (repo("setup: ['a; b']"), "2: repos.app.setup.0: 'a; b' contains ';'"),
        (repo("setup_timeout: 0"), "2: repos.app.setup_timeout: must be longer than 0 seconds"),
        (repo("copy: [../.env]"), "2: repos.app.copy.0: '../.env' contains .."),
        (repo("ports: [P, P]"), "2: repos.app.ports.1: 'P' is listed twice"),
        (
            repo("ports: [P], environment: {P: x}"),
            "2: repos.app.ports.0: 'P' is also in env",
        ),
        (repo("ports: [SHIFTBOSS_URL]"), "2: repos.app.ports.0: cannot be set here"),
        (
            repo("verification: {setup: ['a && b']}"),
            "2: repos.app.verification.setup.0: 'a && b' contains '&&'",
        ),
        (repo("verification: {generated: [/x]}"), "2: repos.app.verification.generated.0: '/x'"),
    ],
)
def test_an_inconsistent_plan_is_refused_with_the_reason(text: str, problem: str) -> None:
    found = problems(text)
    assert len(found) == 1, found
    assert found[0].startswith(f"{NAME}:{problem}")


def test_a_cycle_is_named_in_full() -> None:
    chain = [f"{{id: {a}, title: T, files_owned: [{a}], depends_on: [{b}]}}" for a, b in CIRCLE]
    assert problems(plan(*chain)) == [
        f"{NAME}:4: tasks.0.depends_on: the tasks depend on each other in a cycle: a -> b -> c -> a"
    ]


CIRCLE = (("a", "b"), ("b", "c"), ("c", "a"))


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        (task("id: a, criteria: [it is nice]"), "tasks.0.criteria.0: names no command"),
        (repo("environment: {API_TOKEN: geheim}"), "repos.app.environment.API_TOKEN: looks like a"),
        (
            plan(
                more="agent: x\nagents: {x: {kind: codex, environment: {OPENAI_API_KEY: geheim}}}"
            ),
            "agents.x.environment.OPENAI_API_KEY: looks like a secret",
        ),
        (plan(more="agents: {x: {kind: codex}}\n"), "agents.x: is not used by any task"),
        (
            plan(TASK.replace("}", ", repo: app}"), repos="{app: {path: a}, lib: {path: b}}"),
            "repos.lib: is not used by any task",
        ),
        (
            plan(TASK.replace("}", ", budget: {dollars: 2}}"), more="budget: {dollars: 1}\n"),
            "tasks.0.budget.dollars: is more than the budget of the whole plan (1.0)",
        ),
    ],
)
def test_probable_mistakes_are_warnings(text: str, warning: str) -> None:
    (problem,) = warnings(text)
    assert f"{'.'.join(map(str, problem.path))}: {problem.message}".startswith(warning)
    assert "geheim" not in problem.message


@pytest.mark.parametrize("name", ["TOKENS_MAX", "AUTHOR", "KEYBOARD", "PASSWORDLESS_MODE"])
def test_other_variables_are_not_taken_for_secrets(name: str) -> None:
    assert warnings(repo(f"environment: {{{name}: x}}")) == []


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["id", "title", "depends_on", "files_owned", "criteria", "path", "x"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
KEYS = st.sampled_from(["goal", "repos", "tasks", "agents", "agent", "swarm", "budget", "workers"])


@given(st.dictionaries(KEYS, VALUES, max_size=5))
def test_any_file_is_read_or_refused_in_our_own_wording(data: dict[str, object]) -> None:
    try:
        read(yaml.safe_dump(data))
    except InvalidPlan as error:
        reported = error.facts["problems"]
        assert isinstance(reported, list)
        assert all(problem.startswith(f"{NAME}:") for problem in reported)
        assert not any(
            re.search(r"Input should|String should|pydantic", problem) for problem in reported
        )
