"""A blocked worker: its question reaches a person, the answer reaches the worker."""

from __future__ import annotations

import json

import pytest

from tests.acceptance.bus.bus import submitted, task
from tests.client import Client
from tests.commands import shiftboss
from tests.e2e.bus.bus_processes import worker_process
from tests.running import RunningServer
from tests.waiting import wait_until

ASKING = """
    import sys
    from shiftboss import BusWorker

    async with BusWorker("z.ai1", heartbeat_seconds=1) as worker:
        async for task in worker.tasks():
            for question in ("Which database?", "Which port?"):
                print(await task.ask(question, contact="dba"), flush=True)
            await task.done()
            print("done", flush=True)
"""


def is_asked(client: Client, question: str) -> bool:
    listed = client.post("/bus/list_questions", {}).json()["questions"]
    return [one["question"] for one in listed] == [question]


@pytest.mark.requirement("WP-07", "WP-05")
def test_a_persons_answer_reaches_the_worker_which_then_continues(
    server: RunningServer, client: Client
) -> None:
    submitted(client, "task-1")
    with worker_process(ASKING, server.url) as worker:
        wait_until(lambda: is_asked(client, "Which database?"), "the question is there", 20)
        assert task(client, "task-1")["state"] == "blocked"
        listed = json.loads(shiftboss("questions", "list", "--json", url=server.url).out)
        assert [question["contact"] for question in listed["questions"]] == ["dba"]
        assert shiftboss("questions", "answer", "1", "the old one", url=server.url).code == 0
        assert worker.next_line() == "the old one"
        wait_until(lambda: is_asked(client, "Which port?"), "the next question is there")
        # A worker that waits for a person survives a restart of the server.
        server.kill()
        server.start()
        assert shiftboss("questions", "answer", "2", "5432", url=server.url).code == 0
        assert worker.next_line() == "5432"
        assert worker.next_line() == "done"
    assert task(client, "task-1")["status"] == "done"
    moves = [
        event.kind
        for event in client.stored_events("default")
        if event.kind.startswith(("question", "task_done"))
    ]
    assert moves == [*(["question_asked", "question_answered"] * 2), "task_done"]
