"""The findings of the doctor: their severity and the advice."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shiftboss import __version__
from shiftboss.agents.registry import AGENTS
from shiftboss.doctor.claims import judge_claims
from shiftboss.doctor.findings import Finding
from shiftboss.doctor.forges import judge_answer
from shiftboss.doctor.programs import judge_agents, judge_runners
from shiftboss.doctor.queues import Queues, judge_queues
from shiftboss.doctor.repos import judge_hooks
from shiftboss.doctor.sandbox import judge_sandbox
from shiftboss.doctor.server import check_server
from shiftboss.errors import CiUnavailable, ShiftbossError
from shiftboss.evidence.commands.sandbox import Backend
from shiftboss.protocol.policy import Policy
from shiftboss.rules.documents.wording import pluralize

NOW = 1_800_000_000_000
MINUTE = 60_000


def only(findings: list[Finding]) -> Finding:
    (finding,) = findings
    return finding


def levels(findings: list[Finding]) -> list[str]:
    return [finding.level for finding in findings]


# -- the server


class Line:
    """A connection with prepared answers: bytes, or an error to raise."""

    address = "http://127.0.0.1:7432"

    def __init__(self, health: bytes | ShiftbossError, status: bytes | ShiftbossError) -> None:
        self._health = health
        self._status = status

    def get(self, path: str) -> bytes:
        assert path == "/health"
        return self._said(self._health)

    def post(self, path: str, body: dict[str, object]) -> bytes:
        assert (path, body) == ("/bus/get_status", {})
        return self._said(self._status)

    @staticmethod
    def _said(answer: bytes | ShiftbossError) -> bytes:
        if isinstance(answer, ShiftbossError):
            raise answer
        return answer


def healthy(version: str = __version__) -> bytes:
    health = {"status": "healthy", "version": version, "store": "sqlite", "uptime_seconds": 5}
    return json.dumps(health).encode()


class Refused(ShiftbossError):
    http_status = 503


def test_a_healthy_server_of_the_same_version_is_ok() -> None:
    findings = check_server(Line(healthy(), b"{}"))
    assert [(finding.check, finding.level) for finding in findings] == [
        ("server", "ok"),
        ("store", "ok"),
    ]


def test_a_server_of_another_version_is_a_warning() -> None:
    findings = check_server(Line(healthy("0.0.1"), b"{}"))
    assert levels(findings) == ["warning", "ok"]
    assert "0.0.1" in findings[0].message
    assert __version__ in findings[0].message


@pytest.mark.parametrize(
    ("health", "status", "check", "words"),
    [
        (ShiftbossError("no server at x", hint="start one"), b"{}", "server", "no server at x"),
        (Refused("the disk is full"), b"{}", "store", "the disk is full"),
        (b"<html>", b"{}", "server", "does not answer like Shiftboss"),
        (b'{"hello": 1}', b"{}", "server", "does not answer like Shiftboss"),
        (b"[]", b"{}", "server", "does not answer like Shiftboss"),
        (
            healthy(),
            ShiftbossError("wrong token"),
            "server",
            "the server refuses this command: wrong token",
        ),
    ],
    ids=["away", "store", "somebody else", "other JSON", "list", "token"],
)
def test_an_unusable_server_is_a_problem(
    health: bytes | ShiftbossError, status: bytes, check: str, words: str
) -> None:
    bad = only([one for one in check_server(Line(health, status)) if one.level == "problem"])
    assert bad.check == check
    assert words in bad.message
    assert bad.todo


# -- queues


def repo(name: str = "alphavm", **members: object) -> dict[str, Any]:
    return {"repo": name, "ci": None, "sha": None, "tracking": None, **members}


def tracking(waited_minutes: float, **members: object) -> dict[str, Any]:
    pushed_at = NOW - round(waited_minutes * MINUTE)
    seen = {"sha": "a" * 40, "state": "waiting", "run_id": None, "errors": 0}
    return {**seen, "pushed_at": pushed_at, **members}


def task(waited_minutes: float, **members: object) -> dict[str, Any]:
    updated_at = NOW - round(waited_minutes * MINUTE)
    return {"bead_id": "bd-1", "status": "queued", "waits_for": 0, "updated_at": updated_at} | (
        members
    )


def judged(
    repos: tuple[dict[str, Any], ...] = (),
    halts: tuple[dict[str, Any], ...] = (),
    tasks: tuple[dict[str, Any], ...] = (),
) -> list[Finding]:
    return judge_queues(Queues(repos, halts, tasks), Policy(), NOW)


def test_empty_queues_are_ok() -> None:
    assert levels(judged(repos=(repo(),), tasks=(task(9),))) == ["ok"]


def test_a_run_waiting_too_long_for_a_runner_is_a_stuck_queue() -> None:
    at_the_edge = judged(repos=(repo(tracking=tracking(10, run_id="451")),))
    assert levels(at_the_edge) == ["ok"]
    stuck = only(judged(repos=(repo(tracking=tracking(11, run_id="451")),)))
    assert stuck.level == "problem"
    assert "run #451 of alphavm has been waiting for a runner for 11 minutes" in stuck.message
    assert "systemctl status 'forgejo-runner-*'" in stuck.todo
    assert "sudo systemctl restart forgejo-runner-N" in stuck.todo


def test_a_repo_in_the_policy_can_have_its_own_time_limit() -> None:
    policy = Policy.model_validate(
        {"repos": {"alphavm": {"path": "x", "ci": {"stuck_after": "1m"}}}}
    )
    queues = Queues([repo(tracking=tracking(2, run_id="451"))], [], [])
    assert levels(judge_queues(queues, policy, NOW)) == ["problem"]


def test_short_times_and_singular_counts_are_worded_correctly() -> None:
    policy = Policy.model_validate(
        {"repos": {"alphavm": {"path": "x", "ci": {"stuck_after": "10s"}}}}
    )
    for minutes, words in (
        (0.5, "after 30 seconds"),
        (1, "after 1 minute"),
        (2, "after 2 minutes"),
    ):
        queues = Queues([repo(tracking=tracking(minutes))], [], [])
        assert only(judge_queues(queues, policy, NOW)).message.endswith(words)
    late = only(judged(tasks=(task(11),)))
    assert late.message.startswith("no worker takes 1 task that is ready;")
    assert (pluralize(1, "repo"), pluralize(0, "repo")) == ("1 repo", "0 repos")


def test_a_commit_without_a_run_is_a_different_problem() -> None:
    missing = only(judged(repos=(repo(tracking=tracking(11)),)))
    assert "there is no CI run of commit aaaaaaaaaaaa of alphavm" in missing.message
    assert "empty commit" in missing.todo


def test_a_running_or_finished_run_is_not_stuck() -> None:
    running = repo(tracking=tracking(60, state="running", run_id="451"))
    passed = repo(tracking=tracking(60, state="passed", run_id="451"))
    assert levels(judged(repos=(running, passed))) == ["ok"]


def test_an_unresponsive_forge_is_a_warning_not_to_restart_ci() -> None:
    silent = only(judged(repos=(repo(tracking=tracking(60, errors=3)),)))
    assert silent.level == "warning"
    assert "3 times in a row" in silent.message
    assert "do not restart CI runs" in silent.todo


def test_a_red_repo_and_a_halt_are_reported() -> None:
    halt = {"halt_id": 3, "repos": ["alphavm", "adnet"], "reason": "a key was committed"}
    findings = judged(repos=(repo(ci="red", sha="b" * 40),), halts=(halt,))
    assert levels(findings) == ["problem", "warning"]
    assert "halt 3 stops alphavm, adnet: a key was committed" in findings[0].message
    assert "shiftboss resume 3" in findings[0].todo
    assert "CI of alphavm is red at bbbbbbbbbbbb" in findings[1].message


def test_tasks_nobody_takes_are_reported_once_with_the_oldest() -> None:
    tasks = (task(11), task(30, bead_id="bd-2"), task(30, waits_for=1), task(30, status="active"))
    late = only(judged(tasks=tasks))
    assert late.level == "warning"
    assert (
        late.message
        == "no worker takes 2 tasks that are ready; bd-2 has been waiting for 30 minutes"
    )


def open_claim(minutes: int, why: str | None, **members: object) -> dict[str, Any]:
    """A claim without a verdict, as `list_claims` shows it."""
    facts: dict[str, Any] = {
        "swarm_id": "s",
        "bead_id": "bd-1",
        "claim_id": 2,
        "state": "taken" if why is None else "waiting",
        "repo": "/work",
        "asked_at": NOW - minutes * MINUTE,
        "verifier": "v" if why is None else None,
        "taken_at": NOW - minutes * MINUTE if why is None else None,
        "escalated_at": None,
        "why": why,
    }
    return facts | members


@pytest.mark.parametrize(
    ("minutes", "why", "words"),
    [
        (11, "no verifier is there", "start more verifiers with shiftboss verifier"),
        (11, None, "may take that long"),
        (10, "no verifier is there", None),
        (10, None, None),
    ],
)
def test_a_claim_that_takes_long_is_reported(
    minutes: int, why: str | None, words: str | None
) -> None:
    finding = only(judge_claims([open_claim(minutes, why)], [{"name": "v"}], NOW))
    assert (words is None) == (finding.level == "ok")
    assert words is None or words in finding.todo
    assert words is None or (why or "with the verifier v for 11 minutes") in finding.message


def test_a_claim_that_no_verifier_can_look_at_is_a_problem_at_once() -> None:
    why = "no verifier can verify it: v: There is no folder /work"
    finding = only(judge_claims([open_claim(0, why, escalated_at=NOW)], [{"name": "v"}], NOW))
    assert finding.level == "problem"
    assert finding.message == f"claim 2 of bd-1 in s is stuck: {why}"
    assert finding.todo.endswith("then run: shiftboss claim retry bd-1 --swarm s")


# -- forges and runners


@pytest.mark.parametrize(
    ("reason", "level", "words"),
    [
        ("down", "problem", "Do not restart CI runs"),
        ("rate_limit", "warning", "wait"),
        ("token", "problem", "give a new one"),
        ("set_up", "problem", "give a new one"),
        ("answer", "problem", "give a new one"),
    ],
)
def test_a_forge_error_is_reported_with_a_remedy(reason: str, level: str, words: str) -> None:
    error = CiUnavailable(
        "forge.example.org answered 502",
        reason=reason,
        retry_after_seconds=5,
        hint="give a new one",
    )
    finding = judge_answer("alphavm", error)
    assert (finding.check, finding.level) == ("forge", level)
    assert finding.message == "CI of alphavm: forge.example.org answered 502"
    assert words in finding.todo


def test_the_advice_for_an_offline_runner_is_to_restart_it_by_name() -> None:
    states = {"forgejo-runner-1.service": "active", "forgejo-runner-2.service": "failed"}
    offline = only(judge_runners(states, ""))
    assert offline.level == "problem"
    assert "forgejo-runner-2.service is offline (failed)" in offline.message
    assert "sudo systemctl restart forgejo-runner-2.service" in offline.todo


def test_runners_that_are_online_or_starting_are_ok() -> None:
    states = {"forgejo-runner-1.service": "active", "forgejo-runner-2.service": "activating"}
    assert only(judge_runners(states, "task 12 repo is team/app")).level == "ok"


def test_the_advice_for_a_502_in_the_runner_log_is_to_wait() -> None:
    finding = only(judge_runners({"forgejo-runner-1.service": "active"}, "x 502 Bad Gateway y"))
    assert finding.level == "warning"
    assert "runners reconnect by themselves" in finding.todo


# -- hooks and agents


def test_a_hooks_folder_elsewhere_shadows_the_hooks_of_the_repo() -> None:
    finding = only(judge_hooks("alphavm", {"pre-push": True}, "/etc/hooks"))
    assert finding.level == "warning"
    assert "is /etc/hooks: git ignores its own pre-push" in finding.message


def test_hooks_that_git_ignores_are_reported_and_active_ones_named() -> None:
    assert judge_hooks("alphavm", {}, None) == judge_hooks("alphavm", {}, "/etc/hooks") == []
    findings = judge_hooks("alphavm", {"pre-commit": True, "pre-push": False}, None)
    assert levels(findings) == ["warning", "ok"]
    assert "pre-push of alphavm is not executable" in findings[0].message
    assert "alphavm runs pre-commit" in findings[1].message


def test_one_agent_is_enough() -> None:
    assert only(judge_agents([AGENTS["codex"]])).message == "on the PATH: codex"
    assert only(judge_agents([])).level == "warning"


# -- the sandbox


@pytest.mark.requirement("OWN-16")
@pytest.mark.parametrize(
    ("settings", "installed", "todo"),
    [
        ({}, ["apt-get"], "install bubblewrap: sudo apt-get install bubblewrap"),
        (
            {"kernel.apparmor_restrict_unprivileged_userns": "1"},
            ["apt-get", "bwrap"],
            "allow user namespaces: sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
        ),
        ({"user.max_user_namespaces": "100"}, ["dnf"], "install bubblewrap: sudo dnf install"),
        ({}, ["apt-get", "bwrap"], "verify on a Linux machine that allows user namespaces"),
    ],
)
def test_a_missing_sandbox_is_a_warning_with_advice(
    settings: dict[str, str], installed: list[str], todo: str
) -> None:
    missing = Backend(None, reason="unshare: Operation not permitted")
    finding = only(judge_sandbox(missing, settings, installed))
    assert (finding.check, finding.level) == ("sandbox", "warning")
    assert "without a sandbox: unshare: Operation not permitted" in finding.message
    assert finding.todo.startswith(todo)


@pytest.mark.requirement("OWN-16")
def test_a_sandbox_is_named() -> None:
    finding = only(judge_sandbox(Backend("namespaces"), {}, []))
    assert (finding.level, finding.todo) == ("ok", "")
    assert finding.message.endswith("run in a sandbox (namespaces)")


def test_a_broken_store_is_reported_with_the_hint_of_the_server() -> None:
    away = Refused("the file was deleted", hint="run: shiftboss restore a.backup")
    bad = only([one for one in check_server(Line(away, b"{}")) if one.check == "store"])
    assert bad.todo is not None
    assert bad.todo.startswith("run: shiftboss restore a.backup; workers keep")
