"""Checks that everything the demo promises has happened, from the server's events, its receipts
and git. Nothing is taken from the run itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from shiftboss.cli.common.client import Client, parse_answer
from shiftboss.cli.common.event_stream import StreamEvent, stored_events
from shiftboss.cli.common.receipts import public_key_of
from shiftboss.demo.files import (
    CRASHING_TASK,
    FALSE_CLAIM_TASK,
    FOREIGN_FILES,
    FULL_CONTEXT_TASK,
    OUT_OF_SCOPE_TASK,
    REPOS,
)
from shiftboss.demo.plan import DEPENDENCIES, REPO_DEPENDENCIES, REPO_OF, SWARM, TASKS
from shiftboss.demo.repos import is_on_main, leftovers, text_on_main
from shiftboss.errors import InvalidReceipt, NotFound
from shiftboss.evidence.receipt_verification import read_receipt, verify_receipt
from shiftboss.protocol.claims.receipts import ReceiptBody

_FOREIGN_FILE: Final = next(iter(FOREIGN_FILES))


class ReceiptFile(NamedTuple):
    """A receipt that was saved to a file and checked. `problem` says why it is not genuine."""

    file: Path
    body: ReceiptBody | None
    problem: str | None = None

    @property
    def is_green(self) -> bool:
        """Whether CI ran for exactly this commit and every job succeeded."""
        ci: dict[str, Any] = dict((self.body and self.body.ci) or {})
        runs = ci.get("runs") or []
        return bool(runs) and all(
            run["sha"] == (self.body and self.body.commit)
            and all(job["state"] == "success" for job in run["jobs"])
            for run in runs
        )


class DemoRecord(NamedTuple):
    """The server's facts about the run when it is over."""

    events: list[StreamEvent]
    receipts: dict[str, ReceiptFile]
    repos: list[dict[str, Any]]

    def of(self, kind: str, task_id: str) -> Iterator[StreamEvent]:
        return (
            event
            for event in self.events
            if event.event == kind and event.data.get("bead_id") == task_id
        )

    def receipt(self, task_id: str) -> ReceiptBody | None:
        """Only a genuine receipt counts."""
        receipt = self.receipts.get(task_id)
        return receipt.body if receipt is not None and receipt.problem is None else None


def read_record(client: Client, folder: Path) -> DemoRecord:
    """Read the record, and save the receipts and the server's public key in `folder`."""
    folder.mkdir(exist_ok=True)
    key = folder / "key.pem"
    key.write_text(public_key_of(client))
    return DemoRecord(
        events=list(stored_events(client, SWARM, 0)),
        receipts={
            name: _save_receipt(client, name, folder / f"{name}.json", key) for name in TASKS
        },
        repos=parse_answer(client.call_bus("list_repos", SWARM), "repos")["repos"],
    )


def _save_receipt(client: Client, task_id: str, file: Path, key: Path) -> ReceiptFile:
    """Save a receipt, and verify it from its file without the server."""
    try:
        answer = parse_answer(
            client.call_bus("show_receipt", SWARM, bead_id=task_id), "signed_receipt"
        )
    except NotFound as error:
        return ReceiptFile(file, None, error.detail)
    file.write_text(json.dumps(answer["signed_receipt"], ensure_ascii=False, indent=1))
    try:
        signed = read_receipt(file.read_bytes())
        verify_receipt(signed, key.read_text())
    except InvalidReceipt as error:
        return ReceiptFile(file, None, error.detail)
    return ReceiptFile(file, signed.receipt)


class Fact(NamedTuple):
    text: str
    holds: bool


def facts(record: DemoRecord, repos: Path, attempts: Path, processes: int) -> list[Fact]:
    """`attempts` has a folder with logs for each attempt; `processes` is how many processes the run
    has left behind."""
    return [
        _crash(record),
        _handover(record, repos),
        _hook(attempts),
        _out_of_scope(record, repos),
        _false_claim(record),
        _landed(record, repos),
        _order(record),
        _receipts(record),
        _repos(record),
        _clean_up(repos, processes),
    ]


def _crash(record: DemoRecord) -> Fact:
    failed = next(record.of("task_failed", CRASHING_TASK), None)
    receipt = record.receipt(CRASHING_TASK)
    worker = receipt.worker if receipt else "no worker"
    return Fact(
        f"{CRASHING_TASK}: its agent was killed, and {worker} took over",
        failed is not None
        and "SIGKILL" in failed.data["reason"]
        and receipt is not None
        and receipt.epoch > failed.data["epoch"],
    )


def _handover(record: DemoRecord, repos: Path) -> Fact:
    """The next attempt got the checkpoint of the first one, and built on its commit."""
    stored = next(record.of("checkpoint_stored", FULL_CONTEXT_TASK), None)
    ended = next(record.of("attempt_ended", FULL_CONTEXT_TASK), None)
    later = [
        event.data
        for event in record.of("task_assigned", FULL_CONTEXT_TASK)
        if ended and event.id > ended.id
    ]
    commits = (later[0]["checkpoint"] or {}).get("commits", []) if later else []
    receipt = record.receipt(FULL_CONTEXT_TASK)
    workers = f"from {ended.data['worker']} to {receipt.worker}" if ended and receipt else ""
    return Fact(
        f"{FULL_CONTEXT_TASK}: its context was full; it was handed over with a checkpoint "
        f"{workers}".rstrip(),
        stored is not None
        and ended is not None
        and (ended.data["epoch"], ended.data["reason"]) == (stored.data["epoch"], "taken_over")
        and receipt is not None
        and receipt.epoch > ended.data["epoch"]
        and len(commits) > 0
        and all(is_on_main(repos / REPO_OF[FULL_CONTEXT_TASK], commit) for commit in commits),
    )


def _hook(attempts: Path) -> Fact:
    """Read what git printed for the agent."""
    log = attempts / f"{OUT_OF_SCOPE_TASK}.1" / "errors.log"
    errors = log.read_text() if log.exists() else ""
    return Fact(
        f"{OUT_OF_SCOPE_TASK}: the git hook refused a commit that changed {_FOREIGN_FILE}",
        f"contract of task {OUT_OF_SCOPE_TASK}" in errors and _FOREIGN_FILE in errors,
    )


def _out_of_scope(record: DemoRecord, repos: Path) -> Fact:
    paths = {
        violation.get("path")
        for event in record.of("claim_refused", OUT_OF_SCOPE_TASK)
        for violation in event.data["violations"]
        if violation["check"] == "scope"
    }
    repo = REPO_OF[OUT_OF_SCOPE_TASK]
    return Fact(
        f"{OUT_OF_SCOPE_TASK}: it bypassed the hook, and the server refused the claim because of "
        f"{_FOREIGN_FILE}",
        paths == {_FOREIGN_FILE}
        and text_on_main(repos / repo, _FOREIGN_FILE) == REPOS[repo][_FOREIGN_FILE].strip(),
    )


def _false_claim(record: DemoRecord) -> Fact:
    failed = next(record.of("ci_failed", FALSE_CLAIM_TASK), None)
    receipt = record.receipt(FALSE_CLAIM_TASK)
    jobs = [job["job"] for job in failed.data["jobs"]] if failed else []
    return Fact(
        f"{FALSE_CLAIM_TASK}: it claimed to be done with a failing test, was refused, and fixed it",
        failed is not None
        and "test" in jobs
        and receipt is not None
        and receipt.commit != failed.data["sha"],
    )


def _landed(record: DemoRecord, repos: Path) -> Fact:
    landings = {name: list(record.of("task_landed", name)) for name in TASKS}
    landed_once = [name for name, events in landings.items() if len(events) == 1]
    return Fact(
        f"{len(landed_once)} of {len(TASKS)} tasks landed exactly once, and their commits are on "
        "main",
        len(landed_once) == len(TASKS)
        and all(
            is_on_main(repos / REPO_OF[name], events[0].data[key])
            for name, events in landings.items()
            for key in ("commit", "landed_commit")
        ),
    )


def _order(record: DemoRecord) -> Fact:
    started = {name: next(record.of("task_started", name), None) for name in TASKS}
    landed = {name: next(record.of("task_landed", name), None) for name in TASKS}
    return Fact(
        "no task started before its dependencies had landed",
        all(
            (first := landed[need]) is not None and (then := started[name]) and first.id < then.id
            for name in TASKS
            for need in DEPENDENCIES[name]
        ),
    )


def _receipts(record: DemoRecord) -> Fact:
    genuine = [name for name in TASKS if record.receipt(name) is not None]
    return Fact(
        f"{len(genuine)} receipts are genuine, verified without the server, and CI was green for "
        "each commit",
        len(genuine) == len(TASKS) and all(record.receipts[name].is_green for name in TASKS),
    )


def _repos(record: DemoRecord) -> Fact:
    names = {repo["repo"] for repo in record.repos}
    return Fact(
        f"{', '.join(REPO_DEPENDENCIES)}: unlocked, and CI is green",
        names == REPO_DEPENDENCIES.keys()
        and all(repo["locked_by"] is None and repo["ci"] == "green" for repo in record.repos),
    )


def _clean_up(repos: Path, processes: int) -> Fact:
    left = [leftover for name in REPO_DEPENDENCIES for leftover in leftovers(repos / name)]
    return Fact("no process, work tree or task branch is left behind", processes == 0 and not left)
