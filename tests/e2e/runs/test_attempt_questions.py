"""Which answers a run passes on to its agents, and which they have read themselves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from shiftboss.client.server_address import Server
from shiftboss.client.swarm_events import SwarmEvents
from shiftboss.orchestrator.attempt.questions import AttemptQuestions
from shiftboss.orchestrator.run.server_client import RunServerClient
from tests.running import RunningServer

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("OWN-12")]


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[RunServerClient]:
    """The swarm has a task that an agent works on."""
    server = RunningServer(tmp_path / "shiftboss.db").start()
    try:
        async with RunServerClient(Server(server.url, None), "s") as client:
            await client.create_swarm("Sums")
            await client.call("register_worker", name="w")
            await client.call("add_task", bead_id="t", title="T")
            await client.call("submit_task", bead_id="t")
            await client.call("poll_task", name="w", timeout_ms=0)
            await client.call("ack_task", name="w", bead_id="t")
            yield client
    finally:
        server.close()


async def say(client: RunServerClient, kind: str, **payload: object) -> dict[str, Any]:
    message = {"type": kind, "worker_id": "w", "timestamp": datetime.now(UTC).isoformat()}
    return await client.call("send_message", message={**message, "payload": payload})


async def answered(client: RunServerClient, text: str) -> None:
    asked = await say(client, "blocked", question="which colour?")
    await client.call("answer_question", question_id=asked["question_id"], answer=text)


async def note_events(client: RunServerClient, questions: AttemptQuestions) -> None:
    """Until the first answer is delivered."""
    async with asyncio.timeout(60):
        async for event in SwarmEvents(client.server, "s", 0).follow():
            if event["event"] == "answer_delivered":
                data = event["data"]
                questions.note_delivered(data["bead_id"], data["epoch"], data["question_id"])
                return


async def test_an_answer_that_came_after_the_agent_had_exited_is_unread(
    client: RunServerClient,
) -> None:
    questions = AttemptQuestions(client, "w", "t", 1)
    assert await questions.new_answers() == ([], False)
    await answered(client, "blue")
    assert await questions.new_answers() == (["blue"], True)
    assert await questions.new_answers() == ([], False), "a prompt has it"


async def test_an_answer_that_the_agent_has_polled_is_read(client: RunServerClient) -> None:
    questions = AttemptQuestions(client, "w", "t", 1)
    await answered(client, "blue")
    for _ in range(2):
        polled = await client.call("poll_task", name="w", timeout_ms=0)
        assert polled["answers"][0]["answer"] == "blue", "until a report shows that it continued"
    await note_events(client, questions)
    assert await questions.new_answers() == (["blue"], False)


async def test_an_answer_after_which_the_agent_has_reported_is_read(
    client: RunServerClient,
) -> None:
    questions = AttemptQuestions(client, "w", "t", 1)
    await answered(client, "blue")
    await say(client, "progress")
    assert await questions.new_answers() == (["blue"], False)
