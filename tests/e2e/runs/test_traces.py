"""One trace for each task of a run, from submit to landed, at a real collector."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from pathlib import Path

import pytest

from shiftboss.protocol.trace_ids import attempt_span_id_of, span_id_of, trace_id_of
from shiftboss.system.state_folder import read_server_file
from tests.collected_spans import CollectedSpan, collected
from tests.plan_runs import PlanProject, task
from tests.receiver import Receiver
from tests.waiting import wait_until

pytestmark = pytest.mark.requirement("OWN-08")


LOGGED = ("--log-format", "json", "--log-level", "info", "--log-file", "run.jsonl")


class TracedProject(PlanProject):
    def __init__(self, folder: Path, collector: Receiver) -> None:
        super().__init__(folder)
        self._collector = collector

    def environment(self) -> dict[str, str]:
        return {
            **super().environment(),
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": self._collector.url,
            "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20of-the-collector",
            "OTEL_SERVICE_NAME": "my-swarm",
            "OTEL_BSP_SCHEDULE_DELAY": "50",
        }

    def server_pid(self) -> int:
        record = read_server_file(self.folder / ".shiftboss")
        return 0 if record is None else record.pid


def test_a_trace_leads_from_submit_to_landed_over_a_restart_of_the_server(tmp_path: Path) -> None:
    with Receiver() as collector:
        project = TracedProject(tmp_path, collector)
        project.plan(task("first", do="hang"))
        run = project.start(*LOGGED)
        try:
            agent = project.wait_for_agent("first.1")
            killed = project.server_pid()
            os.kill(killed, signal.SIGKILL)
            wait_until(lambda: project.server_pid() not in (0, killed), "the server is back", 60)
            os.kill(agent, signal.SIGKILL)
            outcome = run.outcome()
        finally:
            run.stop()
        assert outcome["done"]
        spans = collected(collector)
        swarm_id = spans[0].attributes["shiftboss.swarm.id"]
        _check_trace(spans, swarm_id, "first", attempts=2)
        _check_logs(project, swarm_id)
        bodies = b"".join(received.body for received in collector.received)
        secret = (project.folder / ".shiftboss" / "operator-token").read_bytes().strip()
        for hidden in (b"Add first", b"DO: hang", b"python3 -m unittest", secret):
            assert hidden not in bodies, "no text of a task, and no secret"


def _check_logs(project: PlanProject, swarm_id: str) -> None:
    """Those of the run and of its server name the same attempt and the same trace."""
    (server_log,) = (project.folder / ".shiftboss" / "runs").glob("*/server.log")
    for file, logger in (
        (project.folder / "run.jsonl", "shiftboss.orchestrator.run.bootstrap"),
        (server_log, "shiftboss.evidence.checks.claim_renewal"),
        (server_log, "shiftboss.coordinator.after_commit.outcome_log"),
    ):
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        known = [line for line in lines if line["logger"] == logger and "epoch" in line]
        assert known, f"{logger} in {file}"
        for line in known:
            assert (line["swarm"], line["task"]) == (swarm_id, "first")
            assert line["trace_id"] == trace_id_of(swarm_id, "first")
        assert known[-1]["epoch"] > 1
    workers = [line.get("worker") for line in lines if line["logger"] == logger]
    assert workers[0].startswith(swarm_id)


def _check_trace(spans: list[CollectedSpan], swarm_id: str, name: str, attempts: int) -> None:
    own = [span for span in spans if span.trace_id == trace_id_of(swarm_id, name)]
    names = Counter(span.name for span in own)
    assert names["submit"] == names["land"] == names["verify"] == 1, names
    assert names["attempt"] == names["invoke_agent command"] == attempts, names
    assert {"check commit", "check scope", "check criterion"} <= names.keys()
    by_id = {span.span_id: span for span in own}
    root = by_id[span_id_of(swarm_id, name)]
    assert [span for span in own if not span.parent_id] == [root]
    assert all(span.parent_id in by_id for span in own if span is not root)
    assert all(root.start_ms <= span.start_ms <= span.end_ms for span in own)
    assert {span.service for span in own} == {"my-swarm"}
    for span in own:
        assert span.attributes["shiftboss.swarm.id"] == swarm_id
        assert span.attributes["shiftboss.task.id"] == name
    last = max(epoch for span in own if (epoch := span.attributes.get("shiftboss.attempt.epoch")))
    attempt = by_id[attempt_span_id_of(swarm_id, name, last)]
    assert attempt.attributes["shiftboss.result"] == "done"
    assert not attempt.is_error
    parents = {span.name: by_id[span.parent_id].name for span in own if span.parent_id}
    assert parents["invoke_agent command"] == parents["verify"] == "attempt"
    assert parents["check criterion"] == "verify"
    assert parents["land"] == parents["attempt"] == parents["queue"] == "submit"
    (verified,) = (span for span in own if span.name == "verify")
    assert verified.attributes["shiftboss.result"] == "accepted"
    agents = [span for span in own if span.name == "invoke_agent command"]
    assert [agent.attributes["shiftboss.result"] for agent in agents] == [
        *["failed"] * (attempts - 1),
        "ended",
    ]
    assert agents[0].attributes["gen_ai.operation.name"] == "invoke_agent"
