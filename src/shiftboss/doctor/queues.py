"""Finds what is stuck: commits without a CI run, tasks without a worker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from shiftboss.doctor.findings import Finding, ok, problem, warning
from shiftboss.doctor.server import DoctorClient, call_bus
from shiftboss.protocol.policy import Policy, RepoPolicy
from shiftboss.rules.documents.wording import format_duration, pluralize

PAGES_MAX: Final = 20

RUNNERS: Final = (
    "check the runners: systemctl status 'forgejo-runner-*', journalctl -u forgejo-runner-1 "
    "-n 50; restart one with: sudo systemctl restart forgejo-runner-N"
)

Members = Mapping[str, Any]


class Queues(NamedTuple):
    """The report of the server."""

    repos: Sequence[Members]
    halts: Sequence[Members]
    tasks: Sequence[Members]


def read_queues(client: DoctorClient, swarm_id: str) -> Queues:
    repos = call_bus(client, "list_repos")
    tasks = list(_tasks(client, swarm_id))
    return Queues(repos["repos"], repos["halts"], tasks)


def _tasks(client: DoctorClient, swarm_id: str) -> Iterator[Members]:
    after: str | None = ""
    for _ in range(PAGES_MAX):
        page = call_bus(client, "list_tasks", swarm_id=swarm_id, after=after, limit=500)
        yield from page["tasks"]
        after = page["next_after"]
        if after is None:
            return


def judge_queues(queues: Queues, policy: Policy, now_ms: int) -> list[Finding]:
    findings = [
        *_halts(queues.halts),
        *_ci(queues.repos, policy, now_ms),
        *_waiting(queues.tasks, policy.deadlock.idle, now_ms),
    ]
    return findings or [ok("queues", "nothing has been waiting too long")]


def _halts(halts: Sequence[Members]) -> Iterator[Finding]:
    for halt in halts:
        yield problem(
            "queues",
            f"halt {halt['halt_id']} stops {', '.join(halt['repos'])}: {halt['reason']}",
            f"fix the cause, then run: shiftboss resume {halt['halt_id']} --reason 'it is fixed'",
        )


def _ci(repos: Sequence[Members], policy: Policy, now_ms: int) -> Iterator[Finding]:
    for repo in repos:
        name, tracking = repo["repo"], repo["tracking"]
        if repo["ci"] == "red":
            yield warning(
                "queues",
                f"CI of {name} is red at {repo['sha'][:12]}: work that depends on it waits",
                f"fix {name} first; shiftboss repo list shows which worker is on it",
            )
        if tracking is None or tracking["state"] not in ("waiting", "running"):
            continue
        ci = policy.repos.get(name, RepoPolicy()).ci
        waited = (now_ms - tracking["pushed_at"]) // 1000
        if tracking["errors"] >= policy.deadlock.api_errors:
            yield warning(
                "queues",
                f"CI of {name} failed to answer {pluralize(tracking['errors'], 'time')} in a row",
                "wait: Shiftboss asks again, and runners reconnect by themselves; do not restart "
                "CI runs",
            )
        elif tracking["state"] == "waiting" and waited > ci.stuck_after:
            yield _stuck(name, tracking, waited)


def _stuck(name: str, tracking: Members, waited: int) -> Finding:
    commit, duration = tracking["sha"][:12], format_duration(waited)
    if tracking["run_id"] is None:
        return problem(
            "queues",
            f"there is no CI run of commit {commit} of {name} after {duration}",
            "check that it was pushed to the branch of the policy, and that a workflow runs on a "
            "push. If so, the forge has missed it: push again with an empty commit",
        )
    return problem(
        "queues",
        f"run #{tracking['run_id']} of {name} has been waiting for a runner for {duration}",
        RUNNERS,
    )


def _waiting(tasks: Sequence[Members], seconds: int, now_ms: int) -> Iterator[Finding]:
    """Tasks that wait for other tasks do not count."""
    late = [
        task
        for task in tasks
        if task["status"] == "queued"
        and not task["waits_for"]
        and now_ms - task["updated_at"] > seconds * 1000
    ]
    if late:
        longest = min(late, key=lambda task: int(task["updated_at"]))
        waited = format_duration((now_ms - longest["updated_at"]) // 1000)
        ready = pluralize(len(late), "task")
        yield warning(
            "queues",
            f"no worker takes {ready} that {'is' if len(late) == 1 else 'are'} ready; "
            f"{longest['bead_id']} has been waiting for {waited}",
            "start more workers, or reset one that is stuck; `shiftboss worker list` shows them",
        )
