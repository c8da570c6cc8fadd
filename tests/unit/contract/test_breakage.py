"""The rules for finding the push that broke a downstream repo, and for its remedy."""

from __future__ import annotations

import pytest

from shiftboss.protocol.ci import CiDemand, CiJob, CiReport, CiRun
from shiftboss.protocol.policy import CiPolicy, LocalJob
from shiftboss.rules.contract.breakage import (
    Bisection,
    BreakageFinding,
    BreakageQuestion,
    UpstreamPush,
    commits_after,
    failed_jobs,
    fix_description,
    fix_task_id,
    remedy_for,
)
from shiftboss.rules.contract.repo_graph import variable_of


@pytest.mark.parametrize("changes", [1, 2, 3, 7, 8, 200])
def test_bisection_finds_every_change_in_few_steps(changes: int) -> None:
    for breaking in range(1, changes + 1):
        search, looks = Bisection(0, changes), 0
        while (state := search.to_try) is not None:
            assert search.good < state < search.bad
            search = search.after(state, works=state < breaking)
            looks += 1
        assert search == (breaking - 1, breaking)
        assert looks <= changes.bit_length()


def push(repo: str, sha: str, before: str, task: str = "bd-1") -> UpstreamPush:
    return UpstreamPush(repo, sha, before, "swarm", task, 0)


def test_commits_of_all_repos_after_each_push() -> None:
    pushes = [push("core", "c1", "c0"), push("vm", "v1", "v0"), push("core", "c2", "c1")]
    tips = {"core": "c2", "vm": "v1", "other": "o"}
    states = [commits_after(pushes, count, tips) for count in range(4)]
    assert states == [
        {"core": "c0", "vm": "v0", "other": "o"},
        {"core": "c1", "vm": "v0", "other": "o"},
        {"core": "c1", "vm": "v1", "other": "o"},
        {"core": "c2", "vm": "v1", "other": "o"},
    ]


@pytest.mark.parametrize(
    ("own_change_too", "is_tip", "one_repo", "remedy", "task"),
    [
        (False, True, True, "revert_upstream_commit", "revert-" + "a" * 12),
        (False, False, True, "spawn_fix_worker_for_downstream", "fix-ad.net-" + "a" * 12),
        (False, True, False, "spawn_fix_worker_for_downstream", "fix-ad.net-" + "a" * 12),
        (True, True, True, "coordinate_fix", "fix-ad.net-" + "a" * 12),
    ],
)
def test_an_isolated_push_is_reverted_and_any_other_is_fixed(
    own_change_too: bool, is_tip: bool, one_repo: bool, remedy: str, task: str
) -> None:
    sha = "a" * 40
    finding = BreakageFinding(
        "upstream", push("vm", sha, "b"), own_change_too=own_change_too, is_tip=is_tip
    )
    chosen = remedy_for(finding, one_repo=one_repo)
    assert chosen == remedy
    assert fix_task_id(chosen, "ad.net", sha) == task


def test_only_jobs_that_failed_and_have_a_local_command_are_rerun() -> None:
    states = {"check": "success", "build": "failure", "test": "skipped", "lint": "failure"}
    jobs = [CiJob(name=name, state=state) for name, state in states.items()]
    policy = CiPolicy(jobs={name: LocalJob(run=["true"]) for name in ("check", "build", "test")})
    demand = CiDemand(repo="vm", repo_path="/r", branch="main", policy=policy)
    runs = [CiRun(run_id="1", sha="s", state="failure", jobs=jobs)]
    assert failed_jobs(CiReport(sha="s", runs=runs, complete=True), demand) == ["build"]


def test_the_description_says_why_and_stays_short() -> None:
    demand = CiDemand(repo="adnet", repo_path="/r", branch="main", policy=CiPolicy())
    broke = push("vm", "c" * 40, "b" * 40, "bd-7")
    question = BreakageQuestion(demand, "d" * 40, "e" * 40, ["test"], [broke])
    text = fix_description("revert_upstream_commit", question, broke, "x" * 100_000 + "the end")
    assert f"test of adnet has failed since {'c' * 40} of vm (task bd-7)" in text
    assert text.endswith("the end")
    assert len(text) < 3000


@pytest.mark.parametrize(
    ("repo", "variable"),
    [
        ("alphavm", "SHIFTBOSS_REPO_ALPHAVM"),
        ("adl-examples", "SHIFTBOSS_REPO_ADL_EXAMPLES"),
        ("Ad.net_2", "SHIFTBOSS_REPO_AD_NET_2"),
    ],
)
def test_the_variable_of_a_repo(repo: str, variable: str) -> None:
    assert variable_of(repo) == variable
