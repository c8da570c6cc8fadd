"""A policy file is read completely or not at all, and all its problems are reported together."""

from __future__ import annotations

import json
import re
import string
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shiftboss.errors import InvalidPolicy
from shiftboss.protocol.policy import CiPolicy, Policy
from shiftboss.rules.contract.policy_file import read_policy

NAME = "shiftboss.yaml"


def problems(text: str) -> list[str]:
    with pytest.raises(InvalidPolicy) as caught:
        read_policy(text, NAME)
    found = caught.value.facts["problems"]
    assert isinstance(found, list)
    assert str(caught.value).startswith(found[0])
    return found


def assert_read_or_refused(text: str) -> None:
    try:
        read_policy(text, NAME)
    except InvalidPolicy:
        assert all(problem.startswith(f"{NAME}:") for problem in problems(text))


def only_problem(text: str) -> str:
    found = problems(text)
    assert len(found) == 1, found
    return str(found[0])


def test_a_file_with_only_repos_has_the_defaults_of_the_contract() -> None:
    policy = read_policy("repos:\n  alphavm:\n    path: ../alphavm\n", NAME)
    milestones = policy.timeouts.milestones
    assert (milestones.WORKING.timeout, milestones.WORKING.warning_at) == (20 * 60, 15 * 60)
    assert (milestones.PUSHED_TO_CI.timeout, milestones.PUSHED_TO_CI.warning_at) == (900, 600)
    fixing = milestones.FIXING_CI
    assert (fixing.timeout, fixing.warning_at, fixing.max_attempts) == (900, 600, 5)
    assert (policy.timeouts.worker, policy.timeouts.active_within) == (30 * 60, 5 * 60)
    backoff = policy.failures.transient
    assert (backoff.initial, backoff.max, backoff.multiplier, backoff.max_retries) == (5, 60, 2, 3)
    assert policy.failures.permission_denied.max_denials == 2
    assert (policy.deadlock.idle, policy.deadlock.no_commits) == (600, 900)
    assert (policy.deadlock.api_errors, policy.deadlock.check_interval) == (3, 300)
    assert policy.tokens.context_handoff == 50_000
    assert policy.locking == "neighbours"


def test_an_empty_file_is_all_defaults() -> None:
    assert read_policy("", NAME) == read_policy("# nothing\n", NAME) == Policy()


def test_a_single_value_of_a_milestone_can_be_changed() -> None:
    policy = read_policy("timeouts: {milestones: {FIXING_CI: {timeout: 1h 30m}}}", NAME)
    fixing = policy.timeouts.milestones.FIXING_CI
    assert (fixing.timeout, fixing.warning_at, fixing.max_attempts) == (5400, 600, 5)


BROKEN = """\
preset: completion-contract
repos:
  acdc-core: {path: a}
  alphavm:
    path: b
    depends_on:
      - acdc-cor
    ci:
      provder: local
      jobs:
        test: {run: [make test], needs: [biuld]}
        build: {run: [make], timeout: 1.5m}
      required_jobs: [Test, lint]
  deltavm:
    depends_on: [acdc-core]
  adnet:
    ci: {provider: forgejo}
timeouts:
  milestones:
    WORKING: {timeout: 10m, warning_at: 11m}
    NEXT: {timeout: 10m}
repos:
  twice: {path: c}
"""


NO_SYNC_JOB = (
    "the preset demands the job 'radicle-push'; add it, or list the jobs that must not be skipped "
    "in must_succeed ([]: none)"
)


def test_every_problem_is_named_with_its_line_and_key() -> None:
    vm = "repos.alphavm"
    job = f"{vm}.ci.jobs"
    working = "timeouts.milestones.WORKING"
    assert problems(BROKEN) == [
        f"{NAME}:7: {vm}.depends_on.0: there is no repo 'acdc-cor'; did you mean 'acdc-core'?",
        f"{NAME}:9: repos.alphavm.ci.provder: is not a known key; did you mean 'provider'?",
        f"{NAME}:10: {job}: {NO_SYNC_JOB}",
        f"{NAME}:11: {job}.test.needs.0: there is no job 'biuld'; did you mean 'build'?",
        f"{NAME}:12: {job}.build.timeout: must be a duration such as 30s, 20m or 1h 30m",
        f"{NAME}:13: repos.alphavm.ci.required_jobs.1: there is no job 'lint'",
        f"{NAME}:14: repos.deltavm: needs a path or a url, because its jobs run here in a checkout",
        f"{NAME}:17: repos.adnet.ci: the provider forgejo needs a repository (owner/name)",
        f"{NAME}:17: repos.adnet.ci: the provider forgejo needs a url (the address of the forge)",
        f"{NAME}:20: {working}.warning_at: the warning (660s) is after the timeout (600s)",
        f"{NAME}:21: timeouts.milestones.NEXT: is not a known key",
        f"{NAME}:22: repos: is set twice; the first is on line 2",
    ]


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("repos: [", f"{NAME}:1: is not valid YAML: "),
        ("repos:\n\tsdk: 1\n", f"{NAME}:2: is not valid YAML: "),
        ("a: 1\n---\nb: 2\n", f"{NAME}:2: is not valid YAML: "),
        ("repos: *nobody\n", f"{NAME}:1: is not valid YAML: "),
        ("a: b\n\nc: \x07\n", f"{NAME}:3: is not valid YAML: "),
        ("- a list\n", f"{NAME}:1: must be a mapping at the top"),
        ("just a text", f"{NAME}:1: must be a mapping at the top"),
        ("repos: !!python/object:os.system {}\n", f"{NAME}:1: repos: has the tag"),
        ("locking: !secret x\n", f"{NAME}:1: locking: has the tag !secret"),
        (
            "deadlock: {api_errors: !!int many}\n",
            f"{NAME}:1: deadlock.api_errors: is not a valid",
        ),
    ],
)
def test_invalid_yaml_is_reported_with_its_line(text: str, where: str) -> None:
    assert any(problem.startswith(where) for problem in problems(text)), problems(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("timeouts: {worker: 15:00}", "timeouts.worker: must be a duration"),
        ("timeouts: {worker: soon}", "timeouts.worker: must be a duration"),
        ("timeouts: {worker: true}", "timeouts.worker: must be a whole number"),
        ("timeouts: {worker: -5}", "timeouts.worker: must be greater than or equal to 0"),
        ("repos: {sdk: {path: 7}}", "repos.sdk.path: must be a string"),
        ("repos: {sdk: {path: a, branch: 1.10}}", "repos.sdk.branch: must be a string"),
        ("repos: {sdk: {path: a, depends_on: core}}", "repos.sdk.depends_on: must be a list"),
        ("repos: {sdk: nothing}", "repos.sdk: must be a mapping"),
        ("repos: {'a b': {path: a}}", "repos.a b: is not a valid name"),
        (
            "repos: {sdk: {path: a, ci: {url: forge.example}}}",
            "repos.sdk.ci.url: must be an address that starts with http:// or https://",
        ),
        (
            "repos: {sdk: {path: a, ci: {repository: sdk}}}",
            "repos.sdk.ci.repository: must be owner/name",
        ),
        (
            "repos: {sdk: {path: a, ci: {token_variable: token}}}",
            "repos.sdk.ci.token_variable: must be a variable name of capital letters",
        ),
        ('repos: {"a b": {path: a}}', "repos.a b: is not a valid name: must consist of"),
        ("repos: {sdk: {path: a, branch: ''}}", "repos.sdk.branch: must not be empty"),
        ("locking: all", "locking: must be 'neighbours' or 'chain'"),
        (
            "tokens: {total_target: 449}",
            "tokens.total_target: must be at least the sum",
        ),
        (
            "failures: {transient: {initial: 61}}",
            "failures.transient.initial: must not be more",
        ),
        (
            "failures: {recoverable: {escalate_after: 6}}",
            "failures.recoverable.escalate_after: must not be more than max_attempts (5)",
        ),
        (
            "repos: {a: {ci: {provider: github}}}",
            "repos.a.ci: the provider github needs a repository",
        ),
        (
            "repos: {a: {path: a, depends_on: [b, b]}, b: {path: b}}",
            "repos.a.depends_on.1: 'b' is listed twice",
        ),
        (
            "repos: {a: {path: a, ci: {jobs: {T: {run: [x]}, t: {run: [x]}}}}}",
            "repos.a.ci.jobs.t: differs from 'T' only by letter case",
        ),
        ("repos: {a: {path: a, ci: {jobs: {t: {run: []}}}}}", "repos.a.ci.jobs.t.run: "),
        (
            f"sandbox: {{worker_instruction: {'carefully ' * 20}}}",
            "sandbox.worker_instruction: is too long for the spawn prompt",
        ),
        (
            "timeouts: {milestones: {WORKING: {timeout: 10m}}}",
            "timeouts.milestones.WORKING.warning_at: the warning (900s) is after",
        ),
    ],
)
def test_an_invalid_value_is_named_by_its_key(text: str, message: str) -> None:
    assert only_problem(text).startswith(f"{NAME}:1: {message}")


def test_a_token_in_the_address_of_a_forge_is_refused_and_not_repeated() -> None:
    forge = "{provider: forgejo, repository: a/b, url: 'https://me:geheim@forge.example'}"
    problem = only_problem(f"repos: {{a: {{ci: {forge}}}}}")
    assert "repos.a.ci.url: must not contain a user or token" in problem
    assert "geheim" not in problem


def test_cycles_are_named_in_full() -> None:
    text = (
        "repos:\n"
        "  a: {path: a, depends_on: [b]}\n"
        "  b: {path: b, depends_on: [c]}\n"
        "  c: {path: c, depends_on: [a]}\n"
        "  own: {path: d, depends_on: [own]}\n"
    )
    circle = "the repos depend on each other in a cycle"
    assert problems(text) == [
        f"{NAME}:2: repos.a.depends_on: {circle}: a -> b -> c -> a",
        f"{NAME}:5: repos.own.depends_on: {circle}: own -> own",
    ]


def test_a_cycle_of_jobs_is_named_in_full() -> None:
    text = (
        "repos:\n  a:\n    path: a\n    ci:\n      jobs:\n"
        "        build: {run: [x], needs: [test]}\n"
        "        test: {run: [x], needs: [build]}\n"
    )
    assert only_problem(text) == (
        f"{NAME}:6: repos.a.ci.jobs.build.needs: the jobs need each other in a cycle: "
        "build -> test -> build"
    )


@pytest.mark.requirement("CC-01")
def test_a_file_that_names_the_preset_demands_its_sync_job() -> None:
    forge = "ci: {provider: github, repository: o/a}"
    repos = f"repos: {{a: {{{forge}}}}}"
    assert read_policy(f"preset: completion-contract\n{repos}", NAME).repos[
        "a"
    ].ci.must_succeed == ["radicle-push"]
    assert read_policy(repos, NAME).repos["a"].ci.must_succeed is None
    none = repos.replace("o/a", "o/a, must_succeed: []")
    assert (
        read_policy(f"preset: completion-contract\n{none}", NAME).repos["a"].ci.must_succeed == []
    )


def test_a_required_job_cannot_be_optional() -> None:
    ci = (
        "{provider: github, repository: o/a, required_jobs: [test], optional_jobs: [nightly, Test]}"
    )
    assert only_problem(f"repos: {{a: {{ci: {ci}}}}}") == (
        f"{NAME}:1: repos.a.ci.optional_jobs.1: 'Test' is required, so it is not optional"
    )


def test_jobs_of_workflow_files_need_not_be_in_the_policy() -> None:
    policy = read_policy("repos: {a: {path: a, ci: {required_jobs: [test]}}}", NAME)
    assert policy.repos["a"].ci.required_jobs == ["test"]


def test_anchors_and_merges_work_and_explicit_keys_win() -> None:
    text = (
        "repos:\n"
        "  core:\n    path: core\n    ci: &ci\n      jobs: {test: {run: [make test]}}\n"
        "      required_jobs: [test]\n      stuck_after: 5m\n"
        "  vm:\n    path: vm\n    ci:\n      stuck_after: 7m\n      <<: *ci\n"
    )
    repos = read_policy(text, NAME).repos
    assert repos["vm"].ci.required_jobs == ["test"]
    assert (repos["core"].ci.stuck_after, repos["vm"].ci.stuck_after) == (300, 420)


def test_the_first_of_two_merges_wins() -> None:
    text = (
        "timeouts:\n  milestones:\n"
        "    WORKING: &one {timeout: 50m, warning_at: 5m}\n"
        "    PUSHED_TO_CI: &two {timeout: 40m, warning_at: 6m}\n"
        "    FIXING_CI:\n      <<: [*one, *two]\n"
    )
    assert read_policy(text, NAME).timeouts.milestones.FIXING_CI.timeout == 3000


@pytest.mark.parametrize("key", ["2026-01-01", "2026-13-45", "on", "1.0", "~", "0x1F", "null"])
def test_odd_keys_are_names_like_any_other(key: str) -> None:
    assert only_problem(f"{key}: 1").startswith(f"{NAME}:1: {key}: is not a known key")


def test_a_repo_can_be_named_like_a_date() -> None:
    assert list(read_policy("repos: {2026-01-01: {path: x}}", NAME).repos) == ["2026-01-01"]


def test_a_key_that_is_a_list_is_refused() -> None:
    assert "has a key that is not a string" in only_problem("? [a, b]\n: 1\n")


def test_yaml_bombs_and_self_references_are_rejected_quickly() -> None:
    bomb = "a0: &a0 [x, x]\n" + "".join(
        f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}, *a{n - 1}, *a{n - 1}]\n" for n in range(1, 30)
    )
    began = time.process_time()
    assert "must have at most" in only_problem(bomb)
    assert "nested too deeply" in only_problem("a: " + "[" * 3_000)
    assert any("refers to itself" in problem for problem in problems("repos: &r\n  a: *r\n"))
    assert "must have at most" in only_problem("#" * 1_000_001)
    assert time.process_time() - began < 20


@given(st.text(alphabet=string.printable + "é\u2028", max_size=200))
def test_no_text_crashes_the_reader(text: str) -> None:
    assert_read_or_refused(text)


PIECES = ["repos", ":", " ", "\n", "  ", "- ", "a", "{", "}", "[", "]", "&x", "*x", "<<", ",", "1"]


@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join))
def test_no_yaml_crashes_the_reader(text: str) -> None:
    assert_read_or_refused(text)


@pytest.mark.parametrize("command", ["a && b", "grep x | wc", "make > log", "A=1 make", "it's"])
def test_a_command_that_only_a_shell_understands_is_refused(command: str) -> None:
    text = json.dumps({"repos": {"a": {"path": "a", "ci": {"jobs": {"test": {"run": [command]}}}}}})
    (problem,) = problems(text)
    assert "repos.a.ci.jobs.test.run.0" in problem


def test_a_password_in_the_url_of_a_repo_is_refused() -> None:
    (problem,) = problems("repos: {a: {url: 'https://user:word@example.org/a.git'}}")
    assert "repos.a.url" in problem
    read_policy("repos: {a: {url: 'ssh://git@example.org/a.git'}}", NAME)


def test_no_problem_is_worded_by_the_validation_library() -> None:
    values: list[object] = [None, True, 7, -7, 1.5, "", "x", "X\n", [], [7], {}, {"a": 7}]
    found: set[str] = set()
    paths = _paths(Policy().model_dump(mode="json") | {"repos": {"r": REPO}})
    for path in paths:
        for value in values:
            data: object = value
            for key in reversed(path):
                data = {key: data}
            try:
                read_policy(json.dumps(data), NAME)
            except InvalidPolicy:
                found.update(problems(json.dumps(data)))
    assert len(found) > 100
    for one in found:
        assert not re.search(r"Input|String|should|valid |pattern|\^|pydantic", one), one


REPO: dict[str, Any] = {
    "path": "a",
    "url": "b",
    "branch": "main",
    "depends_on": [],
    "ci": CiPolicy().model_dump(mode="json") | {"jobs": {"j": {"run": ["a"], "timeout": 1}}},
}


def _paths(data: dict[str, Any], above: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for key, value in data.items():
        found.append((*above, key))
        if isinstance(value, dict):
            found += _paths(value, (*above, key))
    return found


@pytest.mark.requirement("CC-01")
def test_the_events_whose_runs_count_can_be_chosen() -> None:
    def ci(settings: str) -> str:
        return f"repos:\n  a: {{ci: {{provider: github, repository: o/a{settings}}}}}\n"

    assert read_policy(ci(""), NAME).repos["a"].ci.events == ["push", "pull_request"]
    chosen = read_policy(ci(", events: [push, merge_group]"), NAME)
    assert chosen.repos["a"].ci.events == ["push", "merge_group"]
    for wrong in ("[]", "[Push]", "push"):
        assert f"{NAME}:2: repos.a.ci.events" in only_problem(ci(f", events: {wrong}"))


@pytest.mark.requirement("CC-01")
def test_job_names_with_look_alike_letters_are_other_jobs() -> None:
    jobs = "jobs: {kit: {run: [x]}}"
    text = "repos:\n  a: {path: ., ci: {%s, required_jobs: [%s]}}\n"
    assert read_policy(text % (jobs, "KIT"), NAME)
    assert "required_jobs.0" in only_problem(text % (jobs, "\N{KELVIN SIGN}it"))
