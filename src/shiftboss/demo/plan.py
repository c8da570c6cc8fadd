"""What the demo's swarm does: four packets, and what goes wrong in them."""

from __future__ import annotations

from typing import Final, NamedTuple


class Packet(NamedTuple):
    packet_id: int
    name: str


PACKETS: Final = (
    Packet(1, "backend-api"),
    Packet(2, "web-page"),
    Packet(3, "search-index"),
    Packet(4, "handbook"),
)
CRASHING: Final = PACKETS[1]
FLAKY: Final = PACKETS[2]

TASKS_PER_PACKET: Final = 10
# How long a worker thinks about a task.
PACE_SECONDS: Final = 0.6
CRASH_AFTER_TASKS: Final = 2
SERVER_KILLED_AFTER_TASKS: Final = 3  # of the worker that crashed
FLAKY_TASK: Final = 2
# The server stays dead until so many reports wait; the crashed worker alone has that many left.
QUEUED_REPORTS_MIN: Final = 4


def task_id(number: int) -> str:
    return f"task-{number}"
