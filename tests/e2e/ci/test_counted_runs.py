"""Which runs of a commit count: those of its branch, for the events of the policy, all of them."""

from __future__ import annotations

import pytest

from shiftboss.errors import CiUnavailable
from shiftboss.rules.contract.ci_verdict import ci_state, judge_ci_report
from tests.e2e.ci.forge_provider import OTHER, SHA, Provider, only

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("CC-01")]

GREEN = {"test": "success", "radicle_push": "success"}
RED = {"test": "failure", "radicle_push": "success"}
PULL_REQUEST = {"event": "pull_request", "ref": "refs/pull/7/head"}


async def test_a_green_run_on_another_branch_does_not_hide_the_red_one(ci: Provider) -> None:
    ci.forge.push(SHA, **RED)
    ci.forge.push(SHA, branch="elsewhere", **GREEN)
    assert [run.run_id for run in (await ci.look()).runs] == ["89"]
    assert await ci.verdict() == "failed"


async def test_a_red_run_on_another_branch_does_not_refuse_honest_work(ci: Provider) -> None:
    ci.forge.push(SHA, **GREEN)
    ci.forge.push(SHA, branch="elsewhere", **RED)
    assert await ci.verdict() == "passed"


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        ({"branch": "elsewhere"}, "ran on elsewhere"),
        ({"event": "workflow_dispatch"}, "was started by workflow_dispatch"),
        ({"event": "schedule"}, "was started by schedule"),
    ],
)
async def test_runs_that_do_not_count_never_pass_and_the_reason_is_given(
    ci: Provider, other: dict[str, str], reason: str
) -> None:
    ci.forge.push(SHA, **other, **GREEN)
    report = await ci.look()
    (finding,) = judge_ci_report(report, ci.demand)
    assert (report.runs, finding.outcome) == ([], "pending")
    assert f"run #89 does not count, because it {reason}" in finding.message


async def test_a_run_for_an_event_of_the_policy_counts_but_hides_no_push(ci: Provider) -> None:
    demand = ci.forge.demand(
        required_jobs=["test"], must_succeed=[], events=["push", "workflow_dispatch"]
    )
    ci.forge.push(SHA, event="workflow_dispatch", **GREEN)
    assert ci_state(judge_ci_report(await ci.look(demand=demand), demand)) == "passed"
    red = ci.forge.push(SHA, **RED)
    ci.forge.push(SHA, event="workflow_dispatch", **GREEN)
    assert ci_state(judge_ci_report(await ci.look(demand=demand), demand)) == "failed"
    red.restart(test="success")
    assert ci_state(judge_ci_report(await ci.look(demand=demand), demand)) == "passed"


async def test_many_runs_started_by_hand_do_not_push_the_red_one_out_of_sight(
    ci: Provider,
) -> None:
    ci.forge.push(SHA, workflow="other.yml", **RED)
    for _ in range(130):
        ci.forge.push(SHA, event="workflow_dispatch", test="success")
    ci.forge.push(SHA, **GREEN)
    assert await ci.verdict() == "failed"


@only("forgejo-runs", "forgejo-new", "gitea", "github")
async def test_a_list_that_is_too_long_to_read_proves_nothing(
    ci: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shiftboss.evidence.ci.forge_api.pages.PAGES_MAX", 2)
    ci.forge.page_rows_max = 2
    ci.forge.push(SHA, workflow="other.yml", **RED)
    for _ in range(6):
        ci.forge.push(SHA, **GREEN)
    assert "too many to read" in (await ci.fails()).detail


@only("forgejo-new", "gitea", "github")
async def test_a_forge_that_hides_declared_rows_proves_nothing(ci: Provider) -> None:
    """GitHub lists no more than a thousand runs of a commit."""
    ci.forge.listed_max = 5
    ci.forge.push(SHA, workflow="other.yml", **RED)
    for _ in range(6):
        ci.forge.push(SHA, **GREEN)
    assert "shows 5 of 7 rows" in (await ci.fails()).detail


@pytest.mark.parametrize("declares_totals", [True, False])
@pytest.mark.parametrize("size", [1, 5])
async def test_a_required_job_on_a_later_small_page_is_found(
    ci: Provider, declares_totals: bool, size: int
) -> None:
    ci.forge.page_rows_max, ci.forge.declares_totals = size, declares_totals
    legs = {f"leg_{number:02}": "success" for number in range(9)}
    run = ci.forge.push(SHA, **legs, **GREEN)
    assert await ci.verdict() == "passed"
    run.restart(test="failure")
    assert await ci.verdict() == "failed"


@only("gitea", "github")
async def test_a_link_to_the_next_page_outweighs_a_total(ci: Provider) -> None:
    ci.forge.page_rows_max, ci.forge.declares_totals = 1, False
    ci.forge.headers = {"Link": '<http://127.0.0.1/?page=2>; rel="next"'}
    ci.forge.push(SHA, workflow="other.yml", **RED)
    ci.forge.push(SHA, **GREEN)
    assert await ci.verdict() == "failed"


@only("forgejo-old")
async def test_many_statuses_do_not_push_a_waiting_job_out_of_sight(ci: Provider) -> None:
    """Anyone who can push can write statuses."""
    ci.forge.push(SHA, test="success", radicle_push="success", late="waiting")
    ci.forge.foreign_statuses = [
        {"context": f"{at}", "status": "success", "target_url": ""} for at in range(60)
    ]
    assert await ci.verdict() == "pending"


@only("forgejo-old")
async def test_a_run_on_another_branch_does_not_hide_a_waiting_job(ci: Provider) -> None:
    """Its statuses replace those of our run. Without required jobs, nothing else tells."""
    demand = ci.forge.demand(must_succeed=[])
    ci.forge.push(SHA, test="success", late="waiting")
    ci.forge.push(SHA, branch="elsewhere", test="success", late="success")
    report = await ci.look(demand=demand)
    assert ci_state(judge_ci_report(report, demand)) == "pending"


@only("forgejo-old")
async def test_rows_that_moved_to_a_later_page_are_still_found(ci: Provider) -> None:
    ci.forge.page_rows_max = 5
    ci.forge.push(SHA, **RED)
    assert await ci.verdict() == "failed"
    for at in range(12):
        ci.forge.push(f"{at:040}", test="success")
    ci.forge.push(SHA, workflow="other.yml", **GREEN)
    assert await ci.verdict() == "failed"


async def test_a_pull_request_of_the_branch_counts(ci: Provider) -> None:
    run = ci.forge.push(SHA, **PULL_REQUEST, **GREEN)
    ci.forge.has_statuses = False
    assert await ci.verdict() == "passed"
    run.restart(test="failure")
    assert await ci.verdict() == "failed"


async def test_a_second_pull_request_does_not_hide_a_red_one(ci: Provider) -> None:
    """Its target may be another branch, where the same commit is green."""
    ci.forge.push(SHA, **PULL_REQUEST, **RED)
    ci.forge.push(SHA, event="pull_request", ref="refs/pull/8/head", **GREEN)
    assert await ci.verdict() == "failed"


async def test_a_cancelled_run_of_a_pull_request_is_replaced_by_the_next(ci: Provider) -> None:
    ci.forge.has_statuses = False
    ci.forge.push(SHA, **PULL_REQUEST, test="cancelled", radicle_push="cancelled")
    ci.forge.push(SHA, **PULL_REQUEST, **GREEN)
    assert await ci.verdict() == "passed"


@only("github")
async def test_a_pull_request_of_another_branch_does_not_count(ci: Provider) -> None:
    """The branch has the name that Forgejo would give to a pull request."""
    ci.forge.push(SHA, event="pull_request", branch="#7", **GREEN)
    assert await ci.verdict() == "pending"


@only("forgejo-runs", "forgejo-new", "gitea", "github")
async def test_a_fork_with_the_same_branch_and_commit_does_not_count(ci: Provider) -> None:
    run = ci.forge.push(SHA, **PULL_REQUEST, **GREEN)
    run.is_fork = True
    assert await ci.verdict() == "pending"


@only("gitea")
async def test_a_tag_with_the_name_of_the_branch_does_not_count(ci: Provider) -> None:
    ci.forge.push(SHA, **RED)
    ci.forge.push(SHA, ref="refs/tags/main", **GREEN)
    assert await ci.verdict() == "failed"


@only("forgejo-old")
async def test_a_restarted_job_does_not_make_its_run_the_newest(ci: Provider) -> None:
    """The newest task belongs to the older run."""
    ci.forge.push(OTHER, **GREEN)
    older = ci.forge.push(SHA, **RED)
    newer = ci.forge.push(SHA, **RED)
    older.restart(test="success")
    ci.forge.runs = [newer, older]
    assert await ci.verdict() == "failed"


async def test_jobs_with_look_alike_letters_are_other_jobs(ci: Provider) -> None:
    demand = ci.forge.demand(required_jobs=["kit"], must_succeed=[])
    run = ci.forge.push(SHA, test="success", radicle_push="success")
    run.jobs["\N{KELVIN SIGN}it"] = "success"
    report = await ci.look(demand=demand)
    assert ci_state(judge_ci_report(report, demand)) != "passed"
    run.jobs["KIT"] = "success"
    run.attempt += 1
    report = await ci.look(demand=demand)
    assert ci_state(judge_ci_report(report, demand)) == "passed"


async def test_an_unreadable_list_is_tried_again(ci: Provider) -> None:
    ci.forge.listed_max = 0
    ci.forge.push(SHA, **GREEN)
    with pytest.raises(CiUnavailable, match="shows 0 of"):
        await ci.look()
    ci.forge.listed_max = 100
    assert await ci.verdict() == "passed"
