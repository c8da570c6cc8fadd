"""What the server, its receipts and git say of the run. Nothing here comes from the run itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from shiftboss.cli.bus_calls import call
from shiftboss.cli.client import Client, parsed
from shiftboss.cli.event_stream import StreamEvent, stored_events
from shiftboss.cli.receipt_pages import public_key_of
from shiftboss.demo.plan import SWARM, TASKS
from shiftboss.errors import InvalidReceipt, NotFound
from shiftboss.evidence.receipts import read_receipt, verify_receipt
from shiftboss.protocol.receipts import ReceiptBody


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


class Record(NamedTuple):
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


def read_record(client: Client, folder: Path) -> Record:
    """The receipts and the key that checks them are in `folder` afterwards."""
    folder.mkdir(exist_ok=True)
    key = folder / "key.pem"
    key.write_text(public_key_of(client))
    return Record(
        events=list(stored_events(client, SWARM, 0)),
        papers={name: _paper(client, name, folder / f"{name}.json", key) for name in TASKS},
        repos=parsed(call(client, "list_repos", SWARM), "repos")["repos"],
    )


def _paper(client: Client, task_id: str, file: Path, key: Path) -> Paper:
    """Written by the server, checked without it."""
    try:
        answer = parsed(call(client, "show_receipt", SWARM, bead_id=task_id), "signed_receipt")
    except NotFound as error:
        return Paper(file, None, error.detail)
    file.write_text(json.dumps(answer["signed_receipt"], ensure_ascii=False, indent=1))
    try:
        signed = read_receipt(file.read_bytes())
        verify_receipt(signed, key.read_text())
    except InvalidReceipt as error:
        return Paper(file, None, error.detail)
    return Paper(file, signed.receipt)
