"""Shiftboss through its own library, with a producer that hands over all jobs it has at once."""

from __future__ import annotations

from bench.peers.adapters.shiftboss_http import Call, over_http
from bench.peers.adapters.shiftboss_sdk import work
from bench.peers.records import Kind, record

__all__ = ["producer", "work"]

_TASKS_MAX = 1_000


class AllAtOnce:
    def __init__(self, call: Call) -> None:
        self._call = call

    def send(self, jobs: range) -> None:
        for job in jobs:
            record(Kind.SENT, job)
        for first in range(0, len(jobs), _TASKS_MAX):
            part = jobs[first : first + _TASKS_MAX]
            tasks = [{"bead_id": f"job-{job}", "title": "A job"} for job in part]
            self._call("add_tasks", {"tasks": tasks, "submit": True})


def producer(number: int) -> AllAtOnce:
    return AllAtOnce(over_http(number))
