"""DBOS on PostgreSQL: a queue of workflows, as many at a time as a process takes.

A workflow stays in its table with its input, state and output. Processes look for work at an
interval, a second if nothing else is set. With one workflow at a time (`worker_concurrency`), each
would have to wait for the interval.
"""

from __future__ import annotations

import threading
from typing import Any, Final

from dbos import DBOS, DBOSClient, DBOSConfig

from bench.peers.adapters.place import place
from bench.peers.producer import OneByOne
from bench.peers.records import Kind, record

POLL_SECONDS: Final = 0.01
_QUEUE: Final = "jobs"
_running = threading.local()


def _url() -> str:
    return place().replace("postgresql://", "postgresql+psycopg://", 1)


def _config() -> DBOSConfig:
    return {
        "name": "bench",
        "system_database_url": _url(),
        "application_version": "1",
        "log_level": "ERROR",
    }


@DBOS.workflow(name="run")
def run(job: int) -> int:
    record(Kind.TAKEN, job)
    _running.job = job
    return job


def prepare() -> None:
    DBOS(config=_config())
    DBOS.launch()
    DBOS.register_queue(_QUEUE, polling_interval_sec=POLL_SECONDS)
    DBOS.destroy()


def producer(_number: int) -> OneByOne:
    client = DBOSClient(system_database_url=_url())
    options = {"queue_name": _QUEUE, "workflow_name": "run", "app_version": "1"}
    return OneByOne(lambda job: client.enqueue(options, job))


def work(_number: int) -> None:
    dbos = DBOS(config=_config())
    DBOS.launch()
    # There is no hook for it: the outcome is recorded by the thread that ran the workflow.
    database = dbos._sys_db  # noqa: SLF001
    update_outcome = database.update_workflow_outcome

    def update_and_record(*arguments: Any, **named: Any) -> bool:
        is_recorded: bool = update_outcome(*arguments, **named)
        record(Kind.DONE, _running.job)
        return is_recorded

    database.update_workflow_outcome = update_and_record
    record(Kind.READY)
    threading.Event().wait()
