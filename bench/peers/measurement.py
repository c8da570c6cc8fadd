"""One measurement: a system, its service, and some processes that send and take jobs."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import quantiles
from typing import Final, NamedTuple

from bench.peers.processes import Processes
from bench.peers.records import Kind, RecordPipe
from bench.peers.services import running
from bench.peers.systems import System

_WARM_UP_JOBS: Final = 64
# What a service puts off until it has started is done by then.
_WARM_UP_SECONDS: Final = 2.0
_READY_SECONDS: Final = 90.0
# Without a single record: then the system is stuck.
_SILENT_SECONDS: Final = 60.0
_LOOK_SECONDS: Final = 0.5
# Between two reads while many jobs run: to be woken by each record would take time from them.
_PAUSE_SECONDS: Final = 0.02
# Between two jobs on an idle system. Of random length, so that it never keeps step with a poll.
_IDLE_SECONDS: Final = (0.02, 0.06)


class MeasurementFailedError(Exception):
    """The system did not do its jobs; the message says what its processes wrote."""


class Dispatch(NamedTuple):
    p50_ms: float
    p99_ms: float


@contextmanager
def measuring(
    system: System, folder: Path, *, workers: int, producers: int
) -> Iterator[Measurement]:
    """With all processes running, and some jobs done before the first that counts."""
    with (
        running(system.service, folder) as place,
        RecordPipe(folder / "records") as pipe,
        Processes(system, place, pipe.path, folder) as processes,
    ):
        measurement = Measurement(processes, pipe, producers)
        measurement.start(workers)
        yield measurement


class Measurement:
    def __init__(self, processes: Processes, pipe: RecordPipe, producers: int) -> None:
        self._processes = processes
        self._pipe = pipe
        self._producers = producers
        self._next_job = 0
        self._times: dict[Kind, dict[int, int]] = {kind: {} for kind in Kind}

    def start(self, workers: int) -> None:
        # One after the other: the first prepares what the others need.
        for _ in range(self._producers):
            self._processes.start_producer()
            self._wait_for_ready(1)
        self._processes.start_workers(workers)
        self._wait_for_ready(workers)
        warm_at = time.monotonic() + _WARM_UP_SECONDS
        while time.monotonic() < warm_at:
            self.cycles_per_second(_WARM_UP_JOBS, self._producers)

    def cycles_per_second(self, jobs: int, producers: int) -> float:
        """From the first enqueue until the last job is recorded as done."""
        share = jobs // producers
        first = self._next_job
        for producer in range(producers):
            self._send(producer, share)
        numbers = range(first, self._next_job)
        self._wait_until_done(numbers, _PAUSE_SECONDS)
        began = min(self._times[Kind.SENT][job] for job in numbers)
        ended = max(self._times[Kind.DONE][job] for job in numbers)
        return len(numbers) * 1e9 / (ended - began)

    def dispatch(self, jobs: int) -> Dispatch:
        """From just before the enqueue until a worker process has the job, on an idle system."""
        milliseconds = []
        for _ in range(jobs):
            time.sleep(random.uniform(*_IDLE_SECONDS))
            job = self._next_job
            self._send(0, 1)
            self._wait_until_done(range(job, job + 1))
            taken = self._times[Kind.TAKEN][job] - self._times[Kind.SENT][job]
            milliseconds.append(taken / 1e6)
        percentiles = quantiles(milliseconds, n=100, method="inclusive")
        return Dispatch(percentiles[49], percentiles[98])

    def _send(self, producer: int, jobs: int) -> None:
        self._processes.send(producer, self._next_job, self._next_job + jobs)
        self._next_job += jobs

    def _wait_for_ready(self, processes: int) -> None:
        deadline = time.monotonic() + _READY_SECONDS
        count = 0
        while count < processes:
            self._check(deadline, "it did not start")
            count += sum(record.kind is Kind.READY for record in self._pipe.read(_LOOK_SECONDS))

    def _wait_until_done(self, numbers: range, pause_seconds: float = 0) -> None:
        missing = set(numbers)
        deadline = time.monotonic() + _SILENT_SECONDS
        while missing:
            self._check(deadline, f"{len(missing)} jobs were not done")
            time.sleep(pause_seconds)
            for kind, job, nanoseconds in self._pipe.read(_LOOK_SECONDS):
                deadline = time.monotonic() + _SILENT_SECONDS
                times = self._times[kind]
                if kind is Kind.DONE and job in times:
                    raise MeasurementFailedError(f"job {job} was done twice")
                times.setdefault(job, nanoseconds)
                if kind is Kind.DONE:
                    missing.discard(job)

    def _check(self, deadline: float, what: str) -> None:
        message = self._processes.ended()
        if message is not None:
            raise MeasurementFailedError(f"a process ended: {message}")
        if time.monotonic() > deadline:
            raise MeasurementFailedError(f"{what}: {self._processes.log()}")
