"""Each line of a log names the swarm, the task and the attempt that it is about."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from shiftboss.coordinator.after_commit.outcome_log import log_outcome
from shiftboss.errors import EvidenceUnavailable
from shiftboss.evidence.checks.claim_renewal import verify_with_renewal
from shiftboss.protocol.claims.claim_requests import RenewClaimAnswer, RenewClaimRequest
from shiftboss.protocol.claims.verdicts import Verdict, VerificationJob
from shiftboss.protocol.events import Event
from shiftboss.protocol.trace_ids import trace_id_of
from shiftboss.server.http.access_log import RequestFacts, subject_of
from shiftboss.system.log_subject import about
from shiftboss.system.logs import Logs, LogSettings

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("OWN-08")]

log = logging.getLogger("shiftboss.test")
TRACE = trace_id_of("login", "t1")


@contextmanager
def logging_to(file: Path) -> Iterator[None]:
    level = logging.root.level
    logs = Logs(LogSettings(level="info", form="json", file=file))
    try:
        yield
    finally:
        logs.stop()
        logging.root.setLevel(level)


def lines_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


async def test_lines_are_about_what_is_worked_on_in_tasks_and_threads_too(tmp_path: Path) -> None:
    file = tmp_path / "log"
    with logging_to(file):
        with about("login"), about("login", "t1", epoch=3, worker="w"):
            await asyncio.gather(asyncio.to_thread(log.info, "thread"), one_line("task"))
            log.info("other", extra={"facts": {"task": "t2"}})
        log.info("nothing")
    lines = {line.pop("message"): line for line in lines_of(file)}
    for line in (lines["thread"], lines["task"]):
        assert (line["swarm"], line["task"], line["epoch"]) == ("login", "t1", 3)
        assert (line["worker"], line["trace_id"]) == ("w", TRACE)
    assert lines["other"]["trace_id"] == trace_id_of("login", "t2")
    assert lines["nothing"].keys() == {"time", "level", "logger"}


async def one_line(text: str) -> None:
    await asyncio.create_task(asyncio.to_thread(log.info, text))


JOB: dict[str, Any] = {
    "swarm_id": "login",
    "bead_id": "t1",
    "epoch": 3,
    "claim_id": 7,
    "repo": "shop",
    "base_commit": "a" * 40,
    "branch": None,
    "target": None,
    "commit": None,
    "files_touched": [],
    "contract": {},
    "contract_version": 1,
    "contract_hash": "",
    "policy": {},
}


async def test_a_verifier_names_the_claim_that_it_looks_at(tmp_path: Path) -> None:
    """The server's own and the one on another machine use the same function."""

    async def verify(_job: VerificationJob) -> Verdict:
        logging.getLogger("shiftboss.deep").info("inside")
        raise EvidenceUnavailable("the checkout is gone")

    async def renew(_request: RenewClaimRequest) -> RenewClaimAnswer:
        return RenewClaimAnswer(held=True)

    file = tmp_path / "log"
    with logging_to(file):
        await verify_with_renewal(VerificationJob.model_construct(**JOB), "v", verify, renew)
    first, inside, last = lines_of(file)
    for line in (first, inside, last):
        assert (line["swarm"], line["task"], line["epoch"], line["claim"]) == ("login", "t1", 3, 7)
        assert line["trace_id"] == TRACE
    assert last["message"] == "claim 7 of t1: the checkout is gone"


async def test_an_outcome_names_its_attempt(tmp_path: Path) -> None:
    data = {"bead_id": "t1", "worker": "w", "epoch": 3, "claim_id": 7, "receipt_id": "r"}
    file = tmp_path / "log"
    with logging_to(file):
        await log_outcome(Event("login", 9, "claim_accepted", 1, json.dumps(data)))
    (line,) = lines_of(file)
    assert (line["swarm"], line["task"], line["epoch"], line["worker"]) == ("login", "t1", 3, "w")
    assert (line["claim"], line["trace_id"]) == (7, TRACE)


@pytest.mark.parametrize(
    ("path", "body", "subject"),
    [
        ("/bus/ack_task", {"bead_id": "t1", "name": "w", "epoch": 2},
         {"swarm": "default", "task": "t1", "name": "w", "epoch": 2}),
        ("/mcp", {"params": {"name": "ack_task", "arguments": {"bead_id": "t1", "swarm_id": "s"}}},
         {"swarm": "s", "task": "t1"}),
        ("/swarm/s/progress", {"packet_id": 4, "task_id": "step"},
         {"swarm": "s", "task": "packet-4"}),
        ("/bus/get_status", {}, {}),
        ("/bus/ack_task", {"bead_id": {"a": 1}, "epoch": True}, {}),
    ],
)  # fmt: skip
def test_a_request_names_what_it_is_about(
    path: str, body: dict[str, Any], subject: dict[str, object]
) -> None:
    facts = RequestFacts("POST", path, "127.0.0.1", "id")
    facts.body = json.dumps(body).encode()
    assert subject_of(facts) == subject
