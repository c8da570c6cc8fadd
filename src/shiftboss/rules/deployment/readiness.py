"""Whether a server may get traffic, and if not, why."""

from __future__ import annotations

from typing import Final, NamedTuple

# Below this, a commit may fail at any moment: SQLite's log alone has 16 MB.
DISK_BYTES_MIN: Final = 64 * 2**20
# Below this, somebody should look.
DISK_BYTES_LOW: Final = 2**30


class ReadinessProblem(NamedTuple):
    """Why a server is not ready."""

    name: str
    detail: str
    todo: str = ""


class DiskSpace(NamedTuple):
    """`what` is kept there: the database, or the state folder."""

    what: str
    path: str
    free_bytes: int
    total_bytes: int


def reason_of_disk(disk: DiskSpace) -> ReadinessProblem | None:
    if disk.free_bytes >= DISK_BYTES_MIN:
        return None
    return ReadinessProblem(
        "disk",
        f"the disk of the {disk.what} has {megabytes(disk.free_bytes)} left ({disk.path})",
        "free some space, or move it to a larger disk",
    )


def megabytes(count: int) -> str:
    return f"{count // 2**20} MB"
