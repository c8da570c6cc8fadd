"""A full context: the first process hands its task over, the second finishes it."""

from __future__ import annotations

import json

import pytest

from tests.acceptance.bus.bus import ask, submitted, task
from tests.client import Client
from tests.e2e.bus.bus_processes import worker_process
from tests.running import RunningServer

FULL = """
    import json
    from shiftboss import BusWorker

    async with BusWorker("first") as worker:
        async for task in worker.tasks():
            for usage in (0.69, 0.70):
                beat = await task.heartbeat(usage, "writing the parser")
                print(usage, beat["checkpoint_requested"], flush=True)
            await task.progress(commit="0123456789abcdef")
            await task.checkpoint(
                3, ["src/parser.py"], ["README.md"],
                commits=["fedcba9876543210"], decisions=["recursive descent"],
            )
            print("checkpointed", flush=True)
            break
"""
FRESH = """
    import json
    from shiftboss import BusWorker

    async with BusWorker("second") as worker:
        async for task in worker.tasks():
            print(json.dumps([task.bead_id, task.epoch, task.resume_from]), flush=True)
            await task.done()
            print("done", flush=True)
"""


@pytest.mark.requirement("WP-06", "WP-05")
def test_a_fresh_worker_takes_over_with_the_checkpoint_and_finishes(
    any_server: RunningServer, any_client: Client
) -> None:
    submitted(any_client, "parser")
    with worker_process(FULL, any_server.url) as first:
        assert first.next_line() == "0.69 False"
        assert first.next_line() == "0.7 True"
        assert first.next_line() == "checkpointed"
        assert first.end() == 0
    waiting = task(any_client, "parser")
    assert (waiting["status"], waiting["state"]) == ("queued", "waiting")
    with worker_process(FRESH, any_server.url) as second:
        bead_id, epoch, checkpoint = json.loads(second.next_line())
        assert second.next_line() == "done"
    assert (bead_id, epoch) == ("parser", 2)
    assert checkpoint == {
        "task_id": "parser",
        "current_step": 3,
        "files_created": ["src/parser.py"],
        "files_modified": ["README.md"],
        "commits": ["0123456789abcdef", "fedcba9876543210"],
        "decisions": ["recursive descent"],
        "checkpoint_ready": True,
        "worker": "first",
        "epoch": 1,
    }
    done = task(any_client, "parser")
    assert (done["status"], done["worker"], done["last_error"]) == ("done", "second", None)
    assert [worker["status"] for worker in ask(any_client, "get_status")["workers"]] == [
        "idle",
        "idle",
    ]
