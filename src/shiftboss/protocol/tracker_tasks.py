"""Tasks as a tracker describes them. Imports no pydantic, because every CLI command loads it."""

from __future__ import annotations

from typing import NamedTuple


class TrackerTask(NamedTuple):
    """One task of a tracker, within the limits of a task that is added by hand."""

    task_id: str
    title: str
    description: str
    priority: int
    depends_on: list[str]
    is_done: bool
