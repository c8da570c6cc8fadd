"""Whether a server may get traffic, and if not, why."""

from __future__ import annotations

from shlex import quote
from typing import Final, NamedTuple

# Below this, a commit may fail at any moment: SQLite's log alone has 16 MB.
DISK_BYTES_MIN: Final = 64 * 2**20
# Below this, somebody should look.
DISK_BYTES_LOW: Final = 2**30
# Effects after a commit (notifications, traces) that run later than this are behind.
EFFECTS_BEHIND_MS: Final = 60_000

DOCTOR: Final = "shiftboss doctor"


class ReadinessProblem(NamedTuple):
    """Why a server is not ready, or works worse than it should. `command` shows more."""

    name: str
    detail: str
    todo: str = ""
    command: str = DOCTOR


class DiskSpace(NamedTuple):
    """`what` is kept there: the database, the state folder, or both."""

    what: str
    path: str
    free_bytes: int
    total_bytes: int


def reason_of_disk(disk: DiskSpace) -> ReadinessProblem | None:
    """Why a server with this disk must not get traffic."""
    return _full(disk) if disk.free_bytes < DISK_BYTES_MIN else None


def warning_of_disk(disk: DiskSpace) -> ReadinessProblem | None:
    """It is nearly full, and still enough for now."""
    return _full(disk) if DISK_BYTES_MIN <= disk.free_bytes < DISK_BYTES_LOW else None


def _full(disk: DiskSpace) -> ReadinessProblem:
    return ReadinessProblem(
        "disk",
        f"the disk of the {disk.what} has {megabytes(disk.free_bytes)} left ({disk.path})",
        "free some space, or move it to a larger disk",
        f"df -h {quote(disk.path)}",
    )


def reason_of_stuck_duty(name: str, seconds: float, last_error: str) -> ReadinessProblem:
    cause = f": {last_error}" if last_error else ""
    return ReadinessProblem(
        "duties",
        f"the duty {name} has had no success for {seconds:.0f} s{cause}",
        "the log of the server has the errors; if they name nothing that you can fix, restart it",
    )


def warning_of_evidence(problem: str) -> ReadinessProblem:
    return ReadinessProblem(
        "evidence",
        problem,
        "the next claim starts it again; if that fails, the log of the server says why",
        "shiftboss claim list",
    )


def warning_of_effects(waiting: int, behind_ms: int) -> ReadinessProblem | None:
    """`waiting` events have effects to come, the oldest since `behind_ms`."""
    if behind_ms <= EFFECTS_BEHIND_MS:
        return None
    return ReadinessProblem(
        "effects",
        f"effects after commits (logs, notifications, traces) are {behind_ms / 1000:.0f} s behind, "
        f"with {waiting} events waiting",
        "an effect hangs or fails: the log of the server names it",
    )


def warning_of_log(held_bytes: int) -> ReadinessProblem:
    return ReadinessProblem(
        "write_ahead_log",
        f"the write-ahead log of the database has {megabytes(held_bytes)} and cannot be cut back: "
        "something reads the database for a long time",
        "end what reads it, such as a backup or a database shell; the log shrinks by itself then",
    )


def megabytes(count: int) -> str:
    return f"{count // 2**20} MB"
