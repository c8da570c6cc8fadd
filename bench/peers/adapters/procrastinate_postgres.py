"""Procrastinate on PostgreSQL: workers with LISTEN/NOTIFY, one job at a time each.

A job stays in its table with its state and its events.
"""

from __future__ import annotations

import asyncio
from typing import Any

from procrastinate import App, PsycopgConnector, SyncPsycopgConnector

from bench.peers.adapters.place import place
from bench.peers.producer import OneByOne
from bench.peers.records import Kind, record


async def run(job: int) -> None:
    record(Kind.TAKEN, job)


def _app(connector: object) -> App:
    app = App(connector=connector)
    app.task(run, name="run")
    return app


def prepare() -> None:
    with _app(SyncPsycopgConnector(conninfo=place())).open() as app:
        app.schema_manager.apply_schema()


def producer(_number: int) -> OneByOne:
    app = _app(SyncPsycopgConnector(conninfo=place()))
    app.open()
    task = app.tasks["run"]
    return OneByOne(lambda job: task.defer(job=job))


def work(_number: int) -> None:
    asyncio.run(_work())


async def _work() -> None:
    app = _app(PsycopgConnector(conninfo=place()))
    finish = app.job_manager.finish_job

    async def finish_and_record(job: Any, *arguments: Any, **named: Any) -> None:
        await finish(job, *arguments, **named)
        record(Kind.DONE, job.task_kwargs["job"])

    app.job_manager.finish_job = finish_and_record
    async with app.open_async():
        record(Kind.READY)
        await app.run_worker_async(concurrency=1, listen_notify=True)
