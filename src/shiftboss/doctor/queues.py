"""What has got stuck: commits that wait for CI, tasks that nobody takes, claims nobody verifies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from shiftboss.doctor.findings import Finding, ok, problem, warning
from shiftboss.doctor.server import DoctorClient, asked
from shiftboss.protocol.policy import Policy, RepoPolicy
from shiftboss.rules.documents.wording import how_long, how_many

PAGES_MAX: Final = 20
CLAIM_SECONDS: Final = 600

RUNNERS: Final = (
    "look at the runners: systemctl status 'forgejo-runner-*', journalctl -u forgejo-runner-1 "
    "-n 50; restart one with: sudo systemctl restart forgejo-runner-N"
)

Members = Mapping[str, Any]


class Queues(NamedTuple):
    """What the server says. `claims` are the newest ones of tasks that are being verified."""

    repos: Sequence[Members]
    halts: Sequence[Members]
    tasks: Sequence[Members]
    claims: Sequence[tuple[str, Members]]


def ask_for_queues(line: DoctorClient, swarm_id: str) -> Queues:
    told = asked(line, "list_repos")
    tasks = list(_tasks(line, swarm_id))
    claims = []
    for task in tasks:
        if task["state"] == "verifying":
            view = asked(line, "show_handoff", swarm_id=swarm_id, bead_id=task["bead_id"])
            if view["last_claim"] is not None:
                claims.append((task["bead_id"], view["last_claim"]))
    return Queues(told["repos"], told["halts"], tasks, claims)


def _tasks(line: DoctorClient, swarm_id: str) -> Iterator[Members]:
    after: str | None = ""
    for _ in range(PAGES_MAX):
        page = asked(line, "list_tasks", swarm_id=swarm_id, after=after, limit=500)
        yield from page["tasks"]
        after = page["next_after"]
        if after is None:
            return


def judge_queues(queues: Queues, policy: Policy, now_ms: int) -> list[Finding]:
    findings = [
        *_halts(queues.halts),
        *_ci(queues.repos, policy, now_ms),
        *_waiting(queues.tasks, policy.deadlock.idle, now_ms),
        *_claims(queues.claims, now_ms),
    ]
    return findings or [ok("queues", "nothing waits too long")]


def _halts(halts: Sequence[Members]) -> Iterator[Finding]:
    for one in halts:
        yield problem(
            "queues",
            f"halt {one['halt_id']} stops {', '.join(one['repos'])}: {one['reason']}",
            f"mend it, then: shiftboss resume {one['halt_id']} --reason TEXT",
        )


def _ci(repos: Sequence[Members], policy: Policy, now_ms: int) -> Iterator[Finding]:
    for one in repos:
        name, seen = one["repo"], one["tracking"]
        if one["ci"] == "red":
            yield warning(
                "queues",
                f"CI of {name} is red at {one['sha'][:12]}: what depends on it waits",
                f"{name} has to be mended first; shiftboss repo list shows who is at it",
            )
        if seen is None or seen["state"] not in ("waiting", "running"):
            continue
        ci = policy.repos.get(name, RepoPolicy()).ci
        waited = (now_ms - seen["pushed_at"]) // 1000
        if seen["errors"] >= policy.deadlock.api_errors:
            yield warning(
                "queues",
                f"CI of {name} gave no answer {how_many(seen['errors'], 'time')} in a row",
                "wait: it is asked again, and runners reconnect by themselves; do not start runs "
                "anew",
            )
        elif seen["state"] == "waiting" and waited > ci.stuck_after:
            yield _stuck(name, seen, waited)


def _stuck(name: str, seen: Members, waited: int) -> Finding:
    commit, long = seen["sha"][:12], how_long(waited)
    if seen["run_id"] is None:
        return problem(
            "queues",
            f"there is no CI run of commit {commit} of {name} after {long}",
            "was it pushed to the branch of the policy, and does a workflow run at a push? "
            "If so, the forge has not noticed it: push again with an empty commit",
        )
    return problem(
        "queues",
        f"run #{seen['run_id']} of {name} waits for a runner for {long}",
        RUNNERS,
    )


def _waiting(tasks: Sequence[Members], seconds: int, now_ms: int) -> Iterator[Finding]:
    """Those that wait for others wait rightly."""
    late = [
        one
        for one in tasks
        if one["status"] == "queued"
        and not one["waits_for"]
        and now_ms - one["updated_at"] > seconds * 1000
    ]
    if late:
        longest = min(late, key=lambda one: int(one["updated_at"]))
        waited = how_long((now_ms - longest["updated_at"]) // 1000)
        ready = how_many(len(late), "task")
        yield warning(
            "queues",
            f"nobody takes {ready} that {'is' if len(late) == 1 else 'are'} ready; "
            f"{longest['bead_id']} waits for {waited}",
            "start more workers, or see whether one is stuck: shiftboss worker list, then "
            "shiftboss worker reset NAME",
        )


def _claims(claims: Sequence[tuple[str, Members]], now_ms: int) -> Iterator[Finding]:
    for task_id, claim in claims:
        waited = (now_ms - claim["asked_at"]) // 1000
        if waited <= CLAIM_SECONDS or claim["state"] not in ("waiting", "taken"):
            continue
        words = f"claim {claim['claim_id']} of {task_id} is {claim['state']} for "
        todo = "its commands may take that long; see the server's log, or that of the verifier"
        if claim["state"] == "waiting":
            todo = "no verifier takes it: start one with shiftboss verifier, or the server without "
            todo += "--no-verifier"
        yield warning("queues", f"{words}{how_long(waited)}", todo)
