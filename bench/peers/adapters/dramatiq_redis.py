"""Dramatiq on Redis, started by its own command: processes of one thread each.

A message that a worker has taken is kept until it is acknowledged, and its acknowledgement deletes
it. Consumers ask Redis for messages, and wait up to a second between two questions while it has
none.
"""

from __future__ import annotations

import os
import sys

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from bench.peers.adapters.place import place
from bench.peers.producer import OneByOne
from bench.peers.records import Kind, record


class Recording(dramatiq.Middleware):
    def after_worker_boot(self, _broker: object, _worker: object) -> None:
        record(Kind.READY)

    def after_ack(self, _broker: object, message: dramatiq.MessageProxy) -> None:
        record(Kind.DONE, message.args[0])


broker = RedisBroker(url=place())
broker.add_middleware(Recording())
dramatiq.set_broker(broker)


@dramatiq.actor
def run(job: int) -> None:
    record(Kind.TAKEN, job)


def producer(_number: int) -> OneByOne:
    return OneByOne(run.send)


def work_pool(count: int) -> None:
    options = ["--processes", str(count), "--threads", "1"]
    os.execv(sys.executable, [sys.executable, "-m", "dramatiq", __name__, *options])
