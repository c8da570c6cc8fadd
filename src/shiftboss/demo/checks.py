"""Whether all of it has happened: asked of the server's events, its receipts and git."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from shiftboss.demo.material import CRASHING, FOREIGN, FULL, LYING, REPOS, STRAYING
from shiftboss.demo.plan import BUILT_ON, NEEDS, REPO_OF, TASKS
from shiftboss.demo.record import Record
from shiftboss.demo.repos import is_on_main, leftovers, text_on_main

_FOREIGN: str = next(iter(FOREIGN))


class Fact(NamedTuple):
    text: str
    holds: bool


def facts(record: Record, repos: Path, attempts: Path, processes: int) -> list[Fact]:
    """`attempts` has a folder for each attempt, with its logs; `processes` were left of the run."""
    return [
        _crash(record),
        _handover(record, repos),
        _hook(attempts),
        _foreign(record, repos),
        _lie(record),
        _landed(record, repos),
        _order(record),
        _receipts(record),
        _chain(record),
        _tidy(repos, processes),
    ]


def _crash(record: Record) -> Fact:
    failed = next(record.of("task_failed", CRASHING), None)
    receipt = record.receipt(CRASHING)
    return Fact(
        f"{CRASHING}: its agent was killed; {receipt.worker if receipt else 'nobody'} took over",
        failed is not None
        and "SIGKILL" in failed.data["reason"]
        and receipt is not None
        and receipt.epoch > failed.data["epoch"],
    )


def _handover(record: Record, repos: Path) -> Fact:
    """The next attempt was given the checkpoint of this one, and built on its commit."""
    stored = next(record.of("checkpoint_stored", FULL), None)
    ended = next(record.of("attempt_ended", FULL), None)
    given = [one.data for one in record.of("task_assigned", FULL) if ended and one.id > ended.id]
    commits = (given[0]["checkpoint"] or {}).get("commits", []) if given else []
    receipt = record.receipt(FULL)
    who = f"{ended.data['worker']} to {receipt.worker}" if ended and receipt else "nobody"
    return Fact(
        f"{FULL}: with a full context it was handed over, with a checkpoint, from {who}",
        stored is not None
        and ended is not None
        and (ended.data["epoch"], ended.data["reason"]) == (stored.data["epoch"], "taken_over")
        and receipt is not None
        and receipt.epoch > ended.data["epoch"]
        and len(commits) > 0
        and all(is_on_main(repos / REPO_OF[FULL], one) for one in commits),
    )


def _hook(attempts: Path) -> Fact:
    """What git said to the agent."""
    errors = attempts / f"{STRAYING}.1" / "errors.log"
    said = errors.read_text() if errors.exists() else ""
    return Fact(
        f"{STRAYING}: the git hook refused its commit, which touched {_FOREIGN}",
        f"refused by the contract of task {STRAYING}" in said and _FOREIGN in said,
    )


def _foreign(record: Record, repos: Path) -> Fact:
    paths = {
        one.get("path")
        for event in record.of("claim_refused", STRAYING)
        for one in event.data["violations"]
        if one["check"] == "scope"
    }
    repo = REPO_OF[STRAYING]
    return Fact(
        f"{STRAYING}: it went around the hook, and the server refused the claim: {_FOREIGN}",
        paths == {_FOREIGN}
        and text_on_main(repos / repo, _FOREIGN) == REPOS[repo][_FOREIGN].strip(),
    )


def _lie(record: Record) -> Fact:
    red = next(record.of("ci_failed", LYING), None)
    receipt = record.receipt(LYING)
    jobs = [one["job"] for one in red.data["jobs"]] if red else []
    return Fact(
        f"{LYING}: it claimed to be done with a failing test, and was refused; then it was mended",
        red is not None
        and "test" in jobs
        and receipt is not None
        and receipt.commit != red.data["sha"],
    )


def _landed(record: Record, repos: Path) -> Fact:
    landings = {name: list(record.of("task_landed", name)) for name in TASKS}
    done = [name for name, events in landings.items() if len(events) == 1]
    return Fact(
        f"{len(done)} of {len(TASKS)} tasks landed, once each: their commits are on main",
        len(done) == len(TASKS)
        and all(
            is_on_main(repos / REPO_OF[name], events[0].data[key])
            for name, events in landings.items()
            for key in ("commit", "landed_commit")
        ),
    )


def _order(record: Record) -> Fact:
    began = {name: next(record.of("task_started", name), None) for name in TASKS}
    landed = {name: next(record.of("task_landed", name), None) for name in TASKS}
    return Fact(
        "no task began before all that it needs had landed",
        all(
            (first := landed[need]) is not None and (then := began[name]) and first.id < then.id
            for name in TASKS
            for need in NEEDS[name]
        ),
    )


def _receipts(record: Record) -> Fact:
    genuine = [name for name in TASKS if record.receipt(name) is not None]
    return Fact(
        f"{len(genuine)} receipts are genuine, checked without the server; "
        "CI was green for the commit of each",
        len(genuine) == len(TASKS) and all(record.papers[name].is_green for name in TASKS),
    )


def _chain(record: Record) -> Fact:
    found = {one["repo"]: one for one in record.repos}
    return Fact(
        f"{', '.join(BUILT_ON)}: each is free and green",
        found.keys() == BUILT_ON.keys()
        and all(one["locked_by"] is None and one["ci"] == "green" for one in record.repos),
    )


def _tidy(repos: Path, processes: int) -> Fact:
    left = [one for name in BUILT_ON for one in leftovers(repos / name)]
    return Fact(
        "no process, no work tree and no branch of a task is left", processes == 0 and not left
    )
