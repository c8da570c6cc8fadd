"""Celery on Redis, started by its own command: a pool of processes.

Each takes one task at a time and acknowledges it when it is done (`acks_late`, prefetch 1), so that
a task whose worker dies is delivered again. The acknowledgement deletes the message. Results are
not kept, as Celery's guide advises for tasks that have none.
"""

from __future__ import annotations

import os
import sys

from celery import Celery, Task
from celery.signals import worker_process_init
from celery.worker.request import Request

from bench.peers.adapters.place import place
from bench.peers.producer import OneByOne
from bench.peers.records import Kind, record


class RecordingRequest(Request):
    def acknowledge(self) -> None:
        super().acknowledge()
        record(Kind.DONE, self.args[0])


class RecordingTask(Task):
    Request = f"{__name__}:RecordingRequest"


app = Celery("bench", broker=place(), task_cls=RecordingTask)
app.conf.update(
    task_acks_late=True,
    task_ignore_result=True,
    worker_prefetch_multiplier=1,
    worker_hijack_root_logger=False,
)


@app.task(name="run")
def run(job: int) -> None:
    record(Kind.TAKEN, job)


@worker_process_init.connect
def ready(**_: object) -> None:
    record(Kind.READY)


def producer(_number: int) -> OneByOne:
    return OneByOne(run.delay)


def work_pool(count: int) -> None:
    options = ["--concurrency", str(count), "--pool", "prefork", "--loglevel", "ERROR"]
    quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat"]
    command = [sys.executable, "-m", "celery", "--app", __name__, "--quiet", "worker"]
    os.execv(sys.executable, [*command, *options, *quiet])
