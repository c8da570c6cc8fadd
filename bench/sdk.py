"""The cycle of a task with `BusWorker`, compared with bare HTTP calls, in processor time.

The bare calls (poll, acknowledge, done) go over one connection of the standard library, without
checks or heartbeats. Both run in a process of their own, one after the other, on the same server.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import urlsplit

from bench.figures import Figure
from bench.running import LOAD_SECONDS_MAX, shiftboss
from shiftboss import BusProducer, BusWorker

ROUNDS = 5
TASKS = 500
WORKER = "w"


def run(folder: Path, rounds: int = ROUNDS) -> list[Figure]:
    ratios: list[float] = []
    for number in range(rounds):
        with shiftboss(folder / f"sdk-{number}.db") as server:
            bare = _seconds("bare", server.url)
            ratios.append(_seconds("sdk", server.url) / bare)
    return [Figure("processor time of an SDK cycle / bare calls", median(ratios), "", at_most=1.5)]


def _seconds(kind: str, url: str) -> float:
    process = subprocess.run(
        [sys.executable, "-m", "bench.sdk", kind, url],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=LOAD_SECONDS_MAX,
    )
    return float(process.stdout)


class _Bare:
    def __init__(self, url: str) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(url).netloc)

    def post(self, operation: str, **members: object) -> dict[str, Any]:
        headers = {"Content-Type": "application/json"}
        self._connection.request("POST", f"/bus/{operation}", json.dumps(members), headers)
        answer: dict[str, Any] = json.loads(self._connection.getresponse().read())
        return answer

    def work(self) -> None:
        for _ in range(TASKS):
            task = self.post("poll_task", name=WORKER)["task"]
            attempt = {"name": WORKER, "bead_id": task["bead_id"], "epoch": task["epoch"]}
            self.post("ack_task", **attempt)
            self.post("worker_done", **attempt)


async def _work(url: str) -> None:
    left = TASKS
    async with BusWorker(WORKER, server=url) as worker:
        async for task in worker.tasks():
            await task.done()
            left -= 1
            if not left:
                break


def main() -> None:
    kind, url = sys.argv[1:]
    plan = [f"{kind}-{number}" for number in range(TASKS)]
    asyncio.run(BusProducer(server=url).submit_many(plan))
    bare = _Bare(url)
    bare.post("register_worker", name=WORKER)
    began_at = time.process_time()
    if kind == "bare":
        bare.work()
    else:
        asyncio.run(_work(url))
    print(time.process_time() - began_at)


if __name__ == "__main__":
    main()
