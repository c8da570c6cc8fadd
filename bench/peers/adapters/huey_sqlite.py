"""Huey on SQLite, which waits for the disk after every commit (`fsync`).

A job leaves the queue when a worker takes it, so one whose worker dies is lost. That it is done is
recorded as its result. Workers look for jobs at an interval, which by default grows from 100 ms to
10 s; here it stays as it is.
"""

from __future__ import annotations

from typing import Final

from huey import SqliteHuey
from huey.signals import SIGNAL_COMPLETE

from bench.peers.adapters.place import place
from bench.peers.producer import OneByOne
from bench.peers.records import Kind, record

POLL_SECONDS: Final = 0.1

huey = SqliteHuey("bench", filename=place(), fsync=True, timeout=60)


@huey.task()
def run(job: int) -> int:
    record(Kind.TAKEN, job)
    return job


@huey.on_startup()
def ready() -> None:
    record(Kind.READY)


@huey.signal(SIGNAL_COMPLETE)
def completed(_signal: str, task: object) -> None:
    record(Kind.DONE, task.args[0])  # type: ignore[attr-defined]


def producer(_number: int) -> OneByOne:
    return OneByOne(run)


def work_pool(count: int) -> None:
    consumer = huey.create_consumer(
        workers=count,
        worker_type="process",
        initial_delay=POLL_SECONDS,
        max_delay=POLL_SECONDS,
        backoff=1,
        periodic=False,
        check_worker_health=False,
    )
    consumer.run()
