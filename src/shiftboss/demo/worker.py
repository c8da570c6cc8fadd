"""A worker of the demo: `python -m shiftboss.demo.worker`.

It does what an agent's launcher would do with SwarmWorker: takes its packet (or goes on with it
after a crash), writes and commits a file per task, reports. What the server answered is printed
as one line of JSON each.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from pathlib import Path
from typing import Any, Final

from shiftboss.demo.plan import task_id
from shiftboss.demo.repos import commit_file, head
from shiftboss.protocol.checkpoint import checkpoint_path
from shiftboss.worker.outbox import Outbox, outbox_path
from shiftboss.worker.swarm_worker import SwarmWorker

DELIVERY_SECONDS_MAX: Final = 60


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--server", required=True)
    parser.add_argument("--swarm", required=True)
    parser.add_argument("--packet", type=int, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--worktree", type=Path, required=True)
    parser.add_argument("--tasks", type=int, required=True)
    parser.add_argument("--pace", type=float, required=True, help="seconds of work per task")
    parser.add_argument("--flaky-task", type=int, help="the task that fails the first time")
    return parser.parse_args()


async def work(options: argparse.Namespace) -> None:
    async with SwarmWorker(
        swarm_id=options.swarm,
        packet_id=options.packet,
        packet_name=options.name,
        worktree=str(options.worktree),
        tasks_total=options.tasks,
        server=options.server,
    ) as worker:
        await _begin(worker, options)
        for number in range(worker.tasks_completed + 1, options.tasks + 1):
            await asyncio.sleep(options.pace)
            if number == options.flaky_task:
                await _fail_once(worker, number, options)
            await _do_task(worker, number, options)
        answer = await worker.report_complete(
            final_commit=head(options.worktree), tests_passed=True, review_passed=True
        )
        _say("complete", worker, answer, options)
        await _until_delivered(options)


async def _begin(worker: SwarmWorker, options: argparse.Namespace) -> None:
    if checkpoint_path(options.worktree, options.packet, options.name).exists():
        _say("resumed", worker, await worker.resume(), options)
    else:
        _say("registered", worker, await worker.register(), options)


async def _fail_once(worker: SwarmWorker, number: int, options: argparse.Namespace) -> None:
    """The retry is due in 30 seconds; the worker need not wait for it."""
    answer = await worker.report_error(
        task_id=task_id(number),
        error_type="test_flake",
        message="a test failed that passed a minute ago",
        recoverable=True,
    )
    _say("error", worker, answer, options, task=task_id(number))
    await asyncio.sleep(options.pace * 2)


async def _do_task(worker: SwarmWorker, number: int, options: argparse.Namespace) -> None:
    name = f"{options.name}, part {number}"
    commit = commit_file(options.worktree, f"part-{number}.md", f"# {name}\n", f"Write {name}")
    answer = await worker.report_progress(
        task_id=task_id(number), task_name=f"Write {name}", status="completed", commit=commit
    )
    _say("progress", worker, answer, options, task=task_id(number))


async def _until_delivered(options: argparse.Namespace) -> None:
    """The demo's workers have no courier that would deliver what they leave behind."""
    outbox = Outbox(outbox_path(options.worktree, options.packet, options.name))
    async with asyncio.timeout(DELIVERY_SECONDS_MAX):
        while outbox.files():  # noqa: ASYNC110 - files of another thread tell nobody
            await asyncio.sleep(options.pace / 4)


def _say(
    said: str,
    worker: SwarmWorker,
    answer: dict[str, Any],
    options: argparse.Namespace,
    task: str | None = None,
) -> None:
    word = {
        "said": said,
        "packet_id": options.packet,
        "task": task,
        "tasks_completed": worker.tasks_completed,
        "queued": bool(answer.get("queued")),
    }
    print(json.dumps(word), flush=True)


if __name__ == "__main__":
    asyncio.run(work(_options()))
