"""Whether all of it has happened: asked of the server's events, its receipts and git."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from shiftboss.cli.common.client import Client, parsed
from shiftboss.cli.common.event_stream import StreamEvent, stored_events
from shiftboss.cli.common.pages import public_key_of
from shiftboss.demo.material import CRASHING, FOREIGN, FULL, LYING, REPOS, STRAYING
from shiftboss.demo.plan import BUILT_ON, NEEDS, REPO_OF, SWARM, TASKS
from shiftboss.demo.repos import is_on_main, leftovers, text_on_main
from shiftboss.errors import InvalidReceipt, NotFound
from shiftboss.evidence.receipts import read_receipt, verify_receipt
from shiftboss.protocol.receipts import ReceiptBody

# What the server, its receipts and git say of the run. Nothing here comes from the run itself.


class Paper(NamedTuple):
    """A receipt as it lies in its file. `flaw` says why it is not genuine."""

    file: Path
    body: ReceiptBody | None
    flaw: str | None = None

    @property
    def is_green(self) -> bool:
        """CI has run for this very commit, and every job of it succeeded."""
        said: dict[str, Any] = dict((self.body and self.body.ci) or {})
        runs = said.get("runs") or []
        return bool(runs) and all(
            run["sha"] == (self.body and self.body.commit)
            and all(job["state"] == "success" for job in run["jobs"])
            for run in runs
        )


class DemoRecord(NamedTuple):
    events: list[StreamEvent]
    papers: dict[str, Paper]
    repos: list[dict[str, Any]]

    def of(self, kind: str, task_id: str) -> Iterator[StreamEvent]:
        return (
            one for one in self.events if one.event == kind and one.data.get("bead_id") == task_id
        )

    def receipt(self, task_id: str) -> ReceiptBody | None:
        """Only a genuine one counts."""
        paper = self.papers.get(task_id)
        return paper.body if paper is not None and paper.flaw is None else None


def read_record(client: Client, folder: Path) -> DemoRecord:
    """The receipts and the key that checks them are in `folder` afterwards."""
    folder.mkdir(exist_ok=True)
    key = folder / "key.pem"
    key.write_text(public_key_of(client))
    return DemoRecord(
        events=list(stored_events(client, SWARM, 0)),
        papers={name: _paper(client, name, folder / f"{name}.json", key) for name in TASKS},
        repos=parsed(client.call_bus("list_repos", SWARM), "repos")["repos"],
    )


def _paper(client: Client, task_id: str, file: Path, key: Path) -> Paper:
    """Written by the server, checked without it."""
    try:
        answer = parsed(client.call_bus("show_receipt", SWARM, bead_id=task_id), "signed_receipt")
    except NotFound as error:
        return Paper(file, None, error.detail)
    file.write_text(json.dumps(answer["signed_receipt"], ensure_ascii=False, indent=1))
    try:
        signed = read_receipt(file.read_bytes())
        verify_receipt(signed, key.read_text())
    except InvalidReceipt as error:
        return Paper(file, None, error.detail)
    return Paper(file, signed.receipt)


_FOREIGN: str = next(iter(FOREIGN))


class Fact(NamedTuple):
    text: str
    holds: bool


def facts(record: DemoRecord, repos: Path, attempts: Path, processes: int) -> list[Fact]:
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


def _crash(record: DemoRecord) -> Fact:
    failed = next(record.of("task_failed", CRASHING), None)
    receipt = record.receipt(CRASHING)
    return Fact(
        f"{CRASHING}: its agent was killed; {receipt.worker if receipt else 'nobody'} took over",
        failed is not None
        and "SIGKILL" in failed.data["reason"]
        and receipt is not None
        and receipt.epoch > failed.data["epoch"],
    )


def _handover(record: DemoRecord, repos: Path) -> Fact:
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


def _foreign(record: DemoRecord, repos: Path) -> Fact:
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


def _lie(record: DemoRecord) -> Fact:
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


def _landed(record: DemoRecord, repos: Path) -> Fact:
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


def _order(record: DemoRecord) -> Fact:
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


def _receipts(record: DemoRecord) -> Fact:
    genuine = [name for name in TASKS if record.receipt(name) is not None]
    return Fact(
        f"{len(genuine)} receipts are genuine, checked without the server; "
        "CI was green for the commit of each",
        len(genuine) == len(TASKS) and all(record.papers[name].is_green for name in TASKS),
    )


def _chain(record: DemoRecord) -> Fact:
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
