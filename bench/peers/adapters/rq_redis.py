"""RQ on Redis. Its worker that does not fork for every job, which is the fast one for short jobs.

A job stays in Redis with its state and its result, and is deleted some time later.
"""

from __future__ import annotations

from redis import Redis
from rq import Queue, SimpleWorker
from rq.job import Job

from bench.peers.adapters.place import place
from bench.peers.producer import OneByOne
from bench.peers.records import Kind, record


def run(job: int) -> None:
    record(Kind.TAKEN, job)


class Worker(SimpleWorker):
    def execute_job(self, job: Job, queue: Queue) -> None:
        super().execute_job(job, queue)
        record(Kind.DONE, job.args[0])


def producer(_number: int) -> OneByOne:
    queue = Queue(connection=Redis.from_url(place()))
    return OneByOne(lambda job: queue.enqueue(run, job))


def work(_number: int) -> None:
    connection = Redis.from_url(place())
    worker = Worker([Queue(connection=connection)], connection=connection)
    record(Kind.READY)
    worker.work(logging_level="ERROR")
