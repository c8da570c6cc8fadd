"""The status words of forges and act, and the rate at which forges are polled."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shiftboss.evidence.ci.forge_api.lru_cache import LruCache
from shiftboss.evidence.ci.forge_api.rate_limits import RateLimit
from shiftboss.evidence.ci.local.act import Workflow, jobs_of, parse_workflow
from shiftboss.evidence.ci.states import job_state, state_of
from shiftboss.protocol.ci import JobState
from shiftboss.rules.claims.criteria import CommandResult


@pytest.mark.parametrize(
    ("status", "conclusion", "state"),
    [
        *((one, None, "waiting") for one in ("queued", "waiting", "requested", "pending")),
        *((one, None, "waiting") for one in ("blocked", "unknown", "", None, "of tomorrow")),
        ("in_progress", None, "running"),
        ("running", None, "running"),
        ("success", None, "success"),
        ("failure", None, "failure"),
        ("cancelled", None, "cancelled"),
        ("skipped", None, "skipped"),
        ("completed", "success", "success"),
        ("Completed", "SUCCESS", "success"),
        ("completed", "failure", "failure"),
        ("completed", "timed_out", "failure"),
        ("completed", "startup_failure", "failure"),
        ("completed", "cancelled", "cancelled"),
        ("completed", "stale", "cancelled"),
        ("completed", "skipped", "skipped"),
        ("completed", "neutral", "skipped"),
        ("completed", "action_required", "waiting"),
        ("completed", None, "failure"),
        ("completed", "of tomorrow", "failure"),
    ],
)
def test_every_status_word_has_a_state(
    status: str | None, conclusion: str | None, state: str
) -> None:
    assert job_state(status, conclusion) == state


@pytest.mark.parametrize(
    ("jobs", "state"),
    [
        ([], "waiting"),
        (["waiting", "skipped"], "waiting"),
        (["success", "waiting"], "running"),
        (["failure", "running"], "running"),
        (["success", "failure", "cancelled"], "failure"),
        (["success", "cancelled"], "cancelled"),
        (["success", "skipped"], "success"),
        (["skipped"], "skipped"),
    ],
)
def test_the_state_of_a_run_follows_from_its_jobs(jobs: list[JobState], state: str) -> None:
    assert state_of(jobs) == state


def test_simultaneous_failures_count_once() -> None:
    pacing = RateLimit()
    assert pacing.failed(started_at=10.0, now=11.0, chance=1.0) == 5.0
    for _ in range(100):
        assert pacing.failed(started_at=10.5, now=11.0, chance=1.0) == 5.0
    assert pacing.failed(started_at=16.0, now=17.0, chance=1.0) == 10.0
    assert pacing.wait_seconds(now=30.0) == 0.0


def test_a_failure_does_not_shorten_a_longer_hold() -> None:
    pacing = RateLimit()
    pacing.hold(100.0, "rate_limit")
    pacing.failed(started_at=1.0, now=1.0, chance=0.5)
    assert (pacing.wait_seconds(now=1.0), pacing.reason) == (99.0, "rate_limit")


def test_the_least_recently_used_entry_is_dropped() -> None:
    recent: LruCache[str, int] = LruCache(2)
    recent.put("a", 1)
    recent.put("b", 2)
    assert recent.get("a") == 1
    recent.put("c", 3)
    assert (recent.get("a"), recent.get("b"), recent.get("c"), len(recent)) == (1, None, 3, 2)


WORKFLOW = Workflow("ci.yml", {"check": "check", "test": "The tests"}, [])


def result(*lines: dict[str, Any] | str, exit_code: int = 0) -> CommandResult:
    output = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    return CommandResult(exit_code, False, False, output, 0, f"exit code {exit_code}")


def ended(job_id: str, word: str, dryrun: bool = False) -> dict[str, Any]:
    return {"jobID": job_id, "jobResult": word, "dryrun": dryrun}


@pytest.mark.parametrize(
    ("done", "states"),
    [
        (
            result(ended("check", "success"), ended("test", "success")),
            {"check": "success", "The tests": "success"},
        ),
        (
            result("not JSON", "7", ended("check", "success")),
            {"check": "success", "The tests": "skipped"},
        ),
        (
            result(ended("test", "failure"), ended("test", "success"), exit_code=1),
            {"check": "skipped", "The tests": "failure"},
        ),
        (
            result(ended("check", "success", dryrun=True)),
            {"check": "skipped", "The tests": "skipped"},
        ),
        (
            result(ended("check", "success"), ended("test", "success"), exit_code=1),
            {"check": "success", "The tests": "success", "ci.yml": "failure"},
        ),
        (
            result("Error: no such thing", exit_code=1),
            {"check": "skipped", "The tests": "skipped", "ci.yml": "failure"},
        ),
        (result(), {"check": "skipped", "The tests": "skipped"}),
        (result("Error: Could not find any stages to run. View", exit_code=1), {}),
    ],
)
def test_the_output_of_act_becomes_jobs(done: CommandResult, states: dict[str, str]) -> None:
    assert {job.name: job.state for job in jobs_of(WORKFLOW, done)} == states


@pytest.mark.parametrize("text", [b"jobs: [", b"", b"7", b"jobs: 7", b"jobs: {a: 1}", b"\xff\xfe"])
def test_an_unusable_workflow_file_is_an_error(text: bytes) -> None:
    assert parse_workflow("ci.yml", text).problem is not None


def test_the_jobs_and_labels_of_a_workflow_file() -> None:
    text = b"""
on: push
jobs:
  a: {runs-on: docker}
  b: {name: The tests, runs-on: [self-hosted, docker]}
  c: {name: "${{ matrix.x }}", runs-on: "${{ matrix.y }}"}
  7: {}
"""
    found = parse_workflow("ci.yml", text)
    assert found.jobs == {"a": "a", "b": "The tests", "c": "c", "7": "7"}
    assert found.labels == ["docker", "self-hosted"]
