"""The least that a queue on PostgreSQL can be: SKIP LOCKED and LISTEN/NOTIFY, without a library.

Three commits per job: it is added, taken, done. No leases, no retries, no history.
"""

from __future__ import annotations

from typing import Final

import psycopg

from bench.peers.adapters.place import place
from bench.peers.producer import OneByOne
from bench.peers.records import Kind, record

_SCHEMA: Final = """
    CREATE TABLE jobs (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        number bigint NOT NULL,
        state text NOT NULL DEFAULT 'ready'
    );
    CREATE INDEX jobs_ready ON jobs (id) WHERE state = 'ready';
"""
_ADD: Final = """
    WITH added AS (INSERT INTO jobs (number) VALUES (%s)) SELECT pg_notify('jobs', '')
"""
_TAKE: Final = """
    UPDATE jobs SET state = 'taken' WHERE id = (
        SELECT id FROM jobs WHERE state = 'ready' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED
    ) RETURNING id, number
"""
_DONE: Final = "UPDATE jobs SET state = 'done' WHERE id = %s"
# As a worker of such a queue has, in case that a notification was missed.
_LOOK_AGAIN_SECONDS: Final = 5.0


def prepare() -> None:
    with psycopg.connect(place(), autocommit=True) as connection:
        connection.execute(_SCHEMA)


def producer(_number: int) -> OneByOne:
    connection = psycopg.connect(place(), autocommit=True)
    return OneByOne(lambda job: connection.execute(_ADD, (job,)))


def work(_number: int) -> None:
    with psycopg.connect(place(), autocommit=True) as connection:
        connection.execute("LISTEN jobs")
        record(Kind.READY)
        while True:
            taken = connection.execute(_TAKE).fetchone()
            if taken is None:
                list(connection.notifies(timeout=_LOOK_AGAIN_SECONDS, stop_after=1))
                continue
            row, job = taken
            record(Kind.TAKEN, job)
            connection.execute(_DONE, (row,))
            record(Kind.DONE, job)
