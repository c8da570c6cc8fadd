"""A task as a tracker describes it. Without pydantic, because everyday commands import it."""

from __future__ import annotations

from typing import NamedTuple


class FoundTask(NamedTuple):
    """Within the limits of a task that is added by hand."""

    task_id: str
    title: str
    description: str
    priority: int
    depends_on: list[str]
    is_done: bool
