"""The audit log says who was refused what."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shiftboss.server.http.access_log import REFUSALS_LOGGED_MAX
from shiftboss.system.logs import AUDIT_LOGGER
from tests.in_process import InProcessServer

pytestmark = pytest.mark.requirement("OWN-06")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[InProcessServer]:
    with InProcessServer(tmp_path / "shiftboss.db", needs_token=True) as server:
        yield server


@pytest.fixture(autouse=True)
def audit_level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, AUDIT_LOGGER)


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, dict[str, Any]]]:
    ours = [record for record in caplog.records if record.name == AUDIT_LOGGER]
    return [(record.getMessage(), record.facts) for record in ours]  # type: ignore[attr-defined]


def test_a_refusal_names_who_was_refused_with_a_tool_too(
    server: InProcessServer, caplog: pytest.LogCaptureFixture
) -> None:
    """The refusal of a tool has the status of an answer. It was listed as a change."""
    eve = server.create_token("eve", "worker")
    caplog.clear()
    call = {"name": "cancel_task", "arguments": {"bead_id": "T1", "swarm_id": "s"}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    for accepted in ("application/json", "application/json;q=0.9"):
        server.post("/mcp", body, eve, accept=f"{accepted}, text/event-stream")
    server.bus("cancel_task", eve, bead_id="T1")
    server.operator("waive", eve, bead_id="T1")
    refusals = lines(caplog)
    assert [message for message, _ in refusals] == ["refused"] * 4
    assert {(line["actor"], line["role"], line["code"]) for _, line in refusals} == {
        ("eve", "worker", "forbidden")
    }
    assert [line["operation"] for _, line in refusals] == [
        "/mcp cancel_task",
        "/mcp cancel_task",
        "/bus/cancel_task",
        "/operator/waive",
    ]
    assert (refusals[0][1]["swarm"], refusals[0][1]["task"]) == ("s", "T1")


def test_nobody_hides_behind_the_refusals_of_another(
    server: InProcessServer, caplog: pytest.LogCaptureFixture
) -> None:
    """All come from one address, as behind a proxy."""
    eve = server.create_token("eve", "worker")
    for _ in range(REFUSALS_LOGGED_MAX + 2):
        server.bus("cancel_task", "guessed", bead_id="forged")
    server.bus("cancel_task", eve, bead_id="T1")
    message, line = lines(caplog)[-1]
    assert (message, line["actor"]) == ("refused", "eve")
    assert "forged" not in repr(lines(caplog)), "nobody writes into the log without a token"
