"""Providers for forges that answer over real HTTP, correctly and incorrectly."""

from __future__ import annotations

import logging
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from shiftboss.errors import CiUnavailable
from shiftboss.protocol.ci import CiReport
from shiftboss.rules.contract.ci_verdict import ci_state, judge_ci_report
from tests.e2e.ci.forge_provider import OF_FORGEJO, OTHER, SHA, Provider, only, states
from tests.forge import REPOSITORY, TOKEN, Forge, Reply, running_forge

pytestmark = pytest.mark.anyio

# ------------------------------------------------------------ the states


@pytest.mark.requirement("CC-01", "CC-04")
async def test_a_green_run_of_the_commit_passes(ci: Provider) -> None:
    ci.forge.push(SHA, test="success", radicle_push="success")
    report = await ci.look()
    (run,) = report.runs
    assert (run.run_id, run.sha, run.state, report.complete) == ("89", SHA, "success", True)
    assert states(report) == {"test": "success", "radicle-push": "success"}
    assert run.url is not None
    assert await ci.verdict() == "passed"


@pytest.mark.requirement("CC-01", "CC-04")
@pytest.mark.parametrize(
    ("state", "verdict"),
    [
        ("skipped", "failed"),
        ("cancelled", "failed"),
        ("failure", "failed"),
        ("running", "pending"),
        ("waiting", "pending"),
    ],
)
async def test_a_sync_job_in_any_other_state_does_not_pass(
    ci: Provider, state: str, verdict: str
) -> None:
    ci.forge.push(SHA, test="success", radicle_push=state)
    report = await ci.look()
    assert report.complete == (verdict == "failed")
    if report.complete or ci.forge.flavour == "forgejo-old":
        assert states(report)["radicle-push"] == state
    assert await ci.verdict() == verdict


@pytest.mark.requirement("CC-04")
@pytest.mark.parametrize(
    ("jobs", "state"),
    [
        ({"test": "running"}, "running"),
        ({"test": "success"}, "success"),
        ({"test": "failure", "lint": "success"}, "failure"),
        ({"test": "cancelled", "lint": "success"}, "cancelled"),
    ],
)
async def test_the_state_of_a_run_follows_from_its_jobs(
    ci: Provider, jobs: dict[str, str], state: str
) -> None:
    ci.forge.push(SHA, **jobs)
    (run,) = (await ci.look()).runs
    assert run.state == state


@pytest.mark.requirement("CC-04")
@only("forgejo-runs", "forgejo-new", "gitea", "github")
async def test_a_run_waits_until_a_runner_takes_it(ci: Provider) -> None:
    run = ci.forge.push(SHA, test="waiting")
    assert [run.state for run in (await ci.look()).runs] == ["waiting"]
    run.jobs["test"] = "running"
    assert [run.state for run in (await ci.look()).runs] == ["running"]


@pytest.mark.requirement("CC-03")
async def test_a_commit_without_a_run_is_pending(ci: Provider) -> None:
    assert await ci.look() == CiReport(sha=SHA, runs=[], complete=False)
    assert await ci.verdict() == "pending"


@pytest.mark.requirement("CC-01", "CC-03")
async def test_an_older_green_run_of_another_commit_proves_nothing(ci: Provider) -> None:
    ci.forge.push(OTHER, test="success", radicle_push="success")
    ci.forge.ignores_head_sha = True
    assert (await ci.look()).runs == []
    ci.forge.push(SHA, test="failure", radicle_push="skipped")
    (run,) = (await ci.look()).runs
    assert (run.run_id, run.state) == ("90", "failure")


@pytest.mark.requirement("CC-01")
async def test_a_rerun_that_turns_red_counts_as_red(
    ci: Provider,
) -> None:
    run = ci.forge.push(SHA, test="success", radicle_push="success")
    assert await ci.verdict() == "passed"
    run.restart(test="running")
    assert await ci.verdict() == "pending"
    run.jobs["test"] = "failure"
    assert await ci.verdict() == "failed"
    run.restart(test="success")
    assert await ci.verdict() == "passed"


@pytest.mark.requirement("CC-01")
async def test_the_newer_run_of_a_workflow_counts(ci: Provider) -> None:
    ci.forge.push(SHA, test="failure", radicle_push="skipped")
    ci.forge.push(SHA, test="success", radicle_push="success")
    report = await ci.look()
    assert [run.run_id for run in report.runs] == ["90"]


@pytest.mark.requirement("CC-01")
async def test_every_workflow_counts(ci: Provider) -> None:
    ci.forge.push(SHA, workflow="ci.yml", test="success")
    ci.forge.push(SHA, workflow="sync.yml", radicle_push="skipped")
    report = await ci.look()
    assert [run.run_id for run in report.runs] == ["90", "89"]
    assert await ci.verdict() == "failed"


@pytest.mark.requirement("CC-01")
async def test_a_manually_started_run_does_not_hide_the_pushs_run(ci: Provider) -> None:
    ci.forge.push(SHA, test="failure", radicle_push="success")
    ci.forge.push(SHA, event="workflow_dispatch", test="success", radicle_push="success")
    assert await ci.verdict() == "failed"


@pytest.mark.requirement("CC-01")
async def test_a_job_with_another_name_does_not_count_as_the_required_job(ci: Provider) -> None:
    ci.forge.push(SHA, tests="success", radicle_push="success")
    report = await ci.look()
    assert report.complete
    assert ci_state(judge_ci_report(report, ci.demand)) == "failed"


# ------------------------------------------------------------ the oddities


@pytest.mark.requirement("CC-01", "CC-03")
@only("forgejo-old")
async def test_a_job_without_a_runner_keeps_the_run_open(ci: Provider) -> None:
    run = ci.forge.push(SHA, test="success", radicle_push="waiting")
    report = await ci.look()
    assert (report.complete, states(report)["radicle-push"]) == (False, "waiting")
    run.jobs["radicle-push"] = "success"
    assert await ci.verdict() == "passed"


@pytest.mark.requirement("CC-01", "CC-03")
@only("forgejo-old")
async def test_without_statuses_a_missing_job_fails_only_after_a_while(ci: Provider) -> None:
    ci.forge.has_statuses = False
    ci.forge.push(SHA, test="success", radicle_push="skipped")
    assert (await ci.look()).complete is False
    assert await ci.verdict() == "pending"
    ci.today += timedelta(seconds=ci.demand.policy.stuck_after)
    assert (await ci.look()).complete is True
    assert await ci.verdict() == "failed"


@pytest.mark.requirement("CC-03")
@only(*OF_FORGEJO)
async def test_a_commit_status_identifies_rows_without_a_commit_but_proves_nothing(
    ci: Provider,
) -> None:
    """Anyone who can push can write a status, and refer to an older green run in it."""
    ci.forge.leaves_out_shas = True
    ci.forge.push(OTHER, test="success", radicle_push="success")
    ci.forge.push(SHA, test="success", radicle_push="success")
    ci.forge.ignores_head_sha = True
    report = await ci.look()
    assert [(run.run_id, run.sha, run.state) for run in report.runs] == [("90", "", "running")]
    assert await ci.verdict() == "pending"


@pytest.mark.requirement("CC-01", "CC-03")
@only(*OF_FORGEJO)
async def test_rows_that_only_seem_to_belong_to_the_commit_never_pass(ci: Provider) -> None:
    ci.forge.leaves_out_shas = True
    ci.forge.has_statuses = False
    ci.forge.push(SHA, test="success", radicle_push="success")
    report = await ci.look()
    assert [(run.run_id, run.sha) for run in report.runs] == [("89", "")]
    assert not report.complete
    assert await ci.verdict() == "pending"


@pytest.mark.requirement("CC-03")
@only(*OF_FORGEJO)
@pytest.mark.parametrize("change", ["tip", "branch", "time"])
async def test_rows_of_another_time_branch_or_tip_are_not_even_shown(
    ci: Provider, change: str
) -> None:
    ci.forge.leaves_out_shas = True
    ci.forge.has_statuses = False
    run = ci.forge.push(SHA, test="success")
    if change == "tip":
        ci.forge.tips["main"] = OTHER
    elif change == "branch":
        run.branch = "elsewhere"
    else:
        ci.today += timedelta(hours=1)
    assert (await ci.look()).runs == []


@pytest.mark.requirement("CC-03")
async def test_a_null_reply_is_pending(ci: Provider) -> None:
    ci.forge.push(SHA, test="success", radicle_push="success")
    ci.forge.says_null = True
    assert await ci.verdict() == "pending"
    ci.forge.says_null = False
    assert await ci.verdict() == "passed"


@pytest.mark.requirement("CC-01", "CC-03")
@only("forgejo-new", "gitea", "github")
async def test_a_run_that_ended_without_listing_its_jobs_is_not_complete(ci: Provider) -> None:
    ci.forge.push(SHA, test="success", radicle_push="success")
    rows = ci.forge.reply(*_runs_request(ci.forge))
    ci.forge.instead = [rows, Reply(200, None)]
    report = await ci.look()
    assert (report.complete, [run.state for run in report.runs]) == (False, ["running"])
    assert await ci.verdict() == "passed"


def _runs_request(forge: Forge) -> tuple[str, dict[str, str], str]:
    is_github = forge.flavour == "github"
    path = f"{'' if is_github else '/api/v1'}/repos/{REPOSITORY}/actions/runs"
    return path, {"head_sha": SHA}, f"{'Bearer' if is_github else 'token'} {TOKEN}"


@pytest.mark.requirement("CC-03")
@only("forgejo-old")
async def test_a_commit_below_many_others_is_found_and_later_looks_read_one_page(
    ci: Provider,
) -> None:
    ci.forge.push(SHA, test="success", radicle_push="success")
    for at in range(60):
        ci.forge.push(f"{at:040}", test="success")
    assert await ci.verdict() == "passed"
    tasks = f"/api/v1/repos/{REPOSITORY}/actions/tasks"
    assert ci.forge.requests[tasks] == 2
    await ci.look(OTHER)
    ci.forge.requests.clear()
    await ci.look(OTHER)
    assert ci.forge.requests[tasks] == 1


# ------------------------------------------------------------ patience and its limits


@pytest.mark.requirement("CC-03")
async def test_a_forge_that_is_down_is_asked_again_with_growing_delays(ci: Provider) -> None:
    ci.forge.push(SHA, test="success", radicle_push="success")
    ci.forge.is_down = True
    waits = []
    for _ in range(6):
        error = await ci.fails()
        assert error.facts["reason"] == "down"
        asked = ci.forge.asked
        held = await ci.fails()
        assert ci.forge.asked == asked, "nobody asks before the time"
        assert held.retry_after_seconds == error.retry_after_seconds
        waits.append(error.retry_after_seconds)
        ci.seconds += error.retry_after_seconds
    for wait, most in zip(waits, [5, 10, 20, 40, 60, 60], strict=True):
        assert most * 0.75 <= wait <= most
    ci.forge.is_down = False
    assert await ci.verdict() == "passed"
    ci.forge.is_down = True
    assert (await ci.fails()).retry_after_seconds <= 5, "the count begins anew"


@pytest.mark.requirement("CC-03")
@pytest.mark.parametrize("status", [500, 502, 503, 504])
@only("forgejo-new", "github")
async def test_server_errors_are_waited_out(ci: Provider, status: int) -> None:
    ci.forge.instead = [Reply(status, "<html>")]
    assert (await ci.fails()).detail.endswith(f"answered {status}")
    ci.seconds += 5
    assert (await ci.look()).runs == []


@pytest.mark.requirement("CC-03")
@only("github")
@pytest.mark.parametrize(
    ("status", "headers", "seconds"),
    [
        (429, {"retry-after": "120"}, 120),
        (403, {"retry-after": "30"}, 30),
        (403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1500"}, 500),
        (429, {}, 60),
        (429, {"retry-after": "Thu, 01 Jan 1970 00:20:00 GMT"}, 200),
        (429, {"retry-after": "999999"}, 3600),
    ],
)
async def test_rate_limits_tell_when_to_ask_again(
    ci: Provider, status: int, headers: dict[str, str], seconds: float
) -> None:
    ci.forge.instead = [Reply(status, {}, headers)]
    error = await ci.fails()
    assert (error.facts["reason"], error.retry_after_seconds) == ("rate_limit", seconds)
    ci.seconds += seconds - 1
    await ci.fails()
    assert ci.forge.asked == 1
    ci.seconds += 1
    await ci.look()


@pytest.mark.requirement("CC-03")
@only("github")
async def test_a_secondary_limit_without_headers_is_not_taken_for_a_revoked_token(
    ci: Provider,
) -> None:
    ci.forge.instead = [Reply(403, {"message": "You have exceeded a secondary rate limit"})]
    assert (await ci.fails()).facts["reason"] == "rate_limit"


@pytest.mark.requirement("CC-03")
@only("github")
async def test_the_last_reply_within_a_rate_limit_is_used_before_waiting(
    ci: Provider,
) -> None:
    ci.forge.headers = {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1100"}
    assert (await ci.look()).not_before_seconds == 100
    assert (await ci.fails()).retry_after_seconds == 100
    assert ci.forge.asked == 1


@pytest.mark.requirement("CC-01", "CC-03")
@pytest.mark.parametrize("status", [401, 403])
async def test_a_revoked_token_is_reported_as_such_and_never_passes(
    ci: Provider, status: int
) -> None:
    ci.forge.push(SHA, test="success", radicle_push="success")
    assert await ci.verdict() == "passed"
    ci.forge.instead = [Reply(status, {"message": "no"})]
    error = await ci.fails()
    assert error.facts["reason"] == "token"
    assert "revoked" in error.detail
    assert error.hint is not None


@pytest.mark.requirement("CC-03")
async def test_a_new_token_is_used_at_once(ci: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    ci.forge.accepted_token = "another-token"
    await ci.fails()
    monkeypatch.setenv("FORGE_TOKEN", "another-token")
    assert (await ci.look()).runs == []


@pytest.mark.requirement("CC-03")
@only("forgejo-new")
async def test_a_silent_forge_times_out(ci: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shiftboss.evidence.ci.forge_api.http.ALL_SECONDS", 0.2)
    ci.forge.is_slow = True
    assert (await ci.fails()).facts["reason"] == "down"


@pytest.mark.requirement("CC-03")
@only("forgejo-new")
async def test_an_address_without_a_forge_is_reported_as_down(ci: Provider) -> None:
    demand = ci.forge.demand(url="http://127.0.0.1:1")
    with pytest.raises(CiUnavailable, match="did not answer") as caught:
        await ci.look(demand=demand)
    assert caught.value.facts["reason"] == "down"


@pytest.mark.requirement("CC-03")
async def test_an_unknown_repository_is_reported(ci: Provider) -> None:
    demand = ci.forge.demand(repository="alpha/nothing")
    with pytest.raises(CiUnavailable, match="has no actions of alpha/nothing"):
        await ci.look(demand=demand)


@pytest.mark.requirement("CC-03")
@only("forgejo-new")
@pytest.mark.parametrize("body", ["<html>sign in</html>", "[" * 100])
async def test_a_reply_that_is_not_json_is_rejected(ci: Provider, body: str) -> None:
    ci.forge.instead = [Reply(200, body)]
    assert (await ci.fails()).facts["reason"] == "answer"


@pytest.mark.requirement("CC-03")
@only("forgejo-new")
@pytest.mark.parametrize(
    "body",
    [
        7,
        "text",
        [],
        [1],
        {},
        {"workflow_runs": 3},
        {"workflow_runs": [None, {"id": "x"}, {"id": 1}]},
    ],
)
async def test_malformed_rows_are_ignored(ci: Provider, body: Any) -> None:
    ci.forge.instead = [Reply(200, [body] if isinstance(body, str) else body)]
    report = await ci.look()
    assert (report.runs, report.complete) == ([], False)


@pytest.mark.requirement("CC-03")
@only("forgejo-new")
async def test_an_endless_reply_is_not_read(ci: Provider) -> None:
    ci.forge.instead = [Reply(200, "[" + " " * 5_000_000 + "]")]
    assert "too large a response" in (await ci.fails()).detail


# ------------------------------------------------------------ how much is asked


@pytest.mark.requirement("CC-03")
async def test_a_poll_of_an_open_run_is_one_request(ci: Provider) -> None:
    ci.forge.push(SHA, test="running", radicle_push="waiting")
    await ci.look()
    ci.forge.requests.clear()
    reports = [await ci.look() for _ in range(5)]
    assert ci.forge.asked == 5
    assert all(report.unchanged for report in reports)


@pytest.mark.requirement("CC-03")
@only("forgejo-runs", "forgejo-new", "gitea", "github")
async def test_the_jobs_of_an_ended_run_are_requested_once(ci: Provider) -> None:
    ci.forge.push(SHA, test="success", radicle_push="success")
    assert not (await ci.look()).unchanged
    ci.forge.requests.clear()
    report = await ci.look()
    assert (report.unchanged, report.complete, ci.forge.asked) == (True, True, 1)


@pytest.mark.requirement("CC-03")
async def test_an_unchanged_run_costs_one_not_modified_reply(ci: Provider) -> None:
    ci.forge.has_etags = True
    run = ci.forge.push(SHA, test="running", radicle_push="waiting")
    await ci.look()
    before = ci.forge.not_modified
    assert (await ci.look()).unchanged
    assert ci.forge.not_modified == before + 1
    run.jobs |= {"test": "success", "radicle-push": "success"}
    report = await ci.look()
    assert (report.unchanged, report.complete) == (False, True)


# ------------------------------------------------------------ logs and secrets


@pytest.mark.requirement("CC-04")
@only("forgejo-new", "gitea", "github")
async def test_the_end_of_a_failed_jobs_log_is_fetched(ci: Provider) -> None:
    ci.forge.push(SHA, test="failure")
    (run,) = (await ci.look()).runs
    (job,) = run.jobs
    assert await ci.provider.log_tail(ci.demand, run, job) is None
    ci.forge.logs[int(job.job_id or 0)] = "x" * 20_000 + "\nassertion failed\n"
    tail = await ci.provider.log_tail(ci.demand, run, job)
    assert tail is not None
    assert (len(tail), tail[-18:]) == (16_384, "\nassertion failed\n")


@pytest.mark.requirement("CC-04")
@only("forgejo-old")
async def test_the_log_of_a_forgejo_task_is_not_available(ci: Provider) -> None:
    ci.forge.push(SHA, test="failure")
    (run,) = (await ci.look()).runs
    assert await ci.provider.log_tail(ci.demand, run, run.jobs[0]) is None


@pytest.mark.requirement("CC-04")
@only("github")
async def test_a_log_on_another_host_is_fetched_without_the_token(ci: Provider) -> None:
    ci.forge.push(SHA, test="failure")
    (run,) = (await ci.look()).runs
    with running_forge("github") as store:
        store.accepted_token = None
        store.logs[int(run.jobs[0].job_id or 0)] = "from the store"
        ci.forge.log_address = store.url
        assert await ci.provider.log_tail(ci.demand, run, run.jobs[0]) == "from the store"
        assert store.authorizations == [None]


@pytest.mark.requirement("CC-03")
@only("forgejo-new", "github")
async def test_redirects_to_another_host_are_not_followed(ci: Provider) -> None:
    with running_forge("github") as elsewhere:
        ci.forge.instead = [Reply(302, "", {"Location": f"{elsewhere.url}/steal"})]
        assert "another host" in (await ci.fails()).detail
        assert elsewhere.asked == 0


@pytest.mark.requirement("CC-03")
@only("github")
async def test_a_renamed_repository_is_followed_on_the_same_host(
    ci: Provider,
) -> None:
    ci.forge.push(SHA, test="success", radicle_push="success")
    path, _, _ = _runs_request(ci.forge)
    ci.forge.instead = [Reply(301, "", {"Location": f"{path}?head_sha={SHA}"})]
    assert await ci.verdict() == "passed"
    ci.forge.instead = [Reply(301, "", {"Location": path})] * 3
    assert "redirects too often" in (await ci.fails()).detail


@pytest.mark.requirement("CC-03")
async def test_the_token_appears_nowhere(
    ci: Provider, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    caplog.set_level(logging.DEBUG)
    ci.forge.push(SHA, test="failure", radicle_push="skipped")
    texts = [repr(await ci.look()), repr(ci.demand)]
    ci.forge.instead = [
        Reply(500, TOKEN),
        Reply(403, TOKEN),
        Reply(418, TOKEN),
        Reply(200, TOKEN),
    ]
    for _ in range(4):
        error = await ci.fails()
        texts += [repr(error), error.detail, str(error.hint), repr(error.facts)]
        ci.seconds += 100
    token_file = tmp_path / "token"
    token_file.write_text(f"{TOKEN} and more")
    for mode in (0o644, 0o600):
        token_file.chmod(mode)
        demand = ci.forge.demand(token_variable=None, token_file=str(token_file))
        with pytest.raises(CiUnavailable) as caught:
            await ci.look(demand=demand)
        assert caught.value.facts["reason"] == "set_up"
        texts += [repr(caught.value), str(caught.value.hint)]
    assert any(TOKEN in (sent or "") for sent in ci.forge.authorizations)
    assert all(TOKEN not in text for text in texts)
    assert TOKEN not in caplog.text


@pytest.mark.requirement("CC-03")
async def test_a_token_can_come_from_a_private_file(ci: Provider, tmp_path: Path) -> None:
    token_file = tmp_path / "token"
    token_file.touch(0o600)
    token_file.write_text(f"{TOKEN}\n")
    demand = ci.forge.demand(token_variable=None, token_file=str(token_file))
    assert (await ci.look(demand=demand)).runs == []


@pytest.mark.requirement("CC-03")
@only("forgejo-new")
@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ({"token_variable": "NOT_SET_ANYWHERE"}, "there is no token in"),
        ({"url": None}, "lacks the url"),
        ({"url": "https://me:word@forge.invalid"}, "contains a user name"),
    ],
)
async def test_a_forge_that_is_not_configured_is_reported(
    ci: Provider, policy: dict[str, Any], words: str
) -> None:
    with pytest.raises(CiUnavailable, match=words) as caught:
        await ci.look(demand=ci.forge.demand(**policy))
    assert "word@" not in str(caught.value)


@pytest.mark.requirement("CC-01")
async def test_a_failed_job_on_a_later_page_is_seen(ci: Provider) -> None:
    many = {f"leg_{number:03}": "success" for number in range(120)}
    ci.forge.push(SHA, test="success", radicle_push="success", **many, last="failure")
    report = await ci.look()
    assert {job.name: job.state for run in report.runs for job in run.jobs}["last"] == "failure"


# ------------------------------------------------------------ restarts


async def restarted(ci: Provider, sha: str = SHA) -> bool:
    (run,) = (await ci.look(sha)).runs
    return await ci.provider.restart(ci.demand, sha, run)


def posts(forge: Forge) -> int:
    return sum(number for path, number in forge.requests.items() if path.endswith(("rerun", "cel")))


@pytest.mark.requirement("CC-12")
@only("gitea", "github", "forgejo-new")
@pytest.mark.parametrize("state", ["waiting", "running"])
@pytest.mark.parametrize("looks", [0, 3])
async def test_a_run_in_progress_is_cancelled_and_rerun(
    ci: Provider, state: str, looks: int
) -> None:
    """Forgejo since version 17. A forge may take a moment to cancel."""
    ci.forge.has_reruns = True
    ci.forge.cancels_after = looks
    ci.forge.push(OTHER, test="running")
    run = ci.forge.push(SHA, test="success", radicle_push=state)
    assert await restarted(ci) is True
    assert ci.forge.told == [f"cancel {run.id}", f"rerun {run.id}"]
    report = await ci.look()
    assert [(one.run_id, one.state) for one in report.runs] == [("90", "waiting")]
    run.jobs |= {"test": "success", "radicle-push": "success"}
    assert await ci.verdict() == "passed"


@pytest.mark.requirement("CC-12")
async def test_a_read_only_token_can_still_read_after_a_refused_restart(ci: Provider) -> None:
    """403 is a definite answer: this token cannot restart runs."""
    ci.forge.may_write = False
    ci.forge.has_reruns = True
    ci.forge.push(SHA, test="running", radicle_push="waiting")
    assert await restarted(ci) is False
    assert ci.forge.told == []
    assert posts(ci.forge) <= 1
    assert (await ci.look()).runs[0].state == "running"


@pytest.mark.requirement("CC-12")
@only("forgejo-old", "forgejo-runs", "forgejo-new")
async def test_nothing_is_cancelled_on_a_forge_without_reruns(ci: Provider) -> None:
    """Forgejo 16 could cancel the run, but not rerun it."""
    ci.forge.push(SHA, test="running", radicle_push="waiting")
    assert await restarted(ci) is False
    assert ci.forge.told == []
    assert (await ci.look()).runs[0].state == "running"


@pytest.mark.requirement("CC-12")
@only("gitea", "github")
async def test_a_run_that_is_not_cancelled_in_time_is_not_rerun(ci: Provider) -> None:
    ci.forge.cancels_after = 1000
    run = ci.forge.push(SHA, test="running")
    assert await restarted(ci) is False
    assert ci.forge.told == [f"cancel {run.id}"]


@pytest.mark.requirement("CC-12")
@only("gitea", "github")
async def test_a_run_of_another_commit_is_never_restarted(ci: Provider) -> None:
    ci.forge.push(OTHER, test="running")
    (other,) = (await ci.look(OTHER)).runs
    assert await ci.provider.restart(ci.demand, SHA, other) is False
    assert ci.forge.told == []


@pytest.mark.requirement("CC-12")
@only("gitea", "github")
async def test_a_forge_that_is_down_is_not_asked_to_restart(ci: Provider) -> None:
    ci.forge.push(SHA, test="running")
    (run,) = (await ci.look()).runs
    ci.forge.is_down = True
    with pytest.raises(CiUnavailable):
        await ci.provider.restart(ci.demand, SHA, run)


@pytest.mark.requirement("CC-12")
@only("forgejo-new", "github")
async def test_a_report_says_when_a_run_in_progress_last_moved(ci: Provider) -> None:
    """A run that has not moved for long is stuck."""
    run = ci.forge.push(SHA, test="running")
    (first,) = (await ci.look()).runs
    assert first.moved_at is not None
    run.jobs["test"] = "success"
    (ended,) = (await ci.look()).runs
    assert ended.moved_at is None
