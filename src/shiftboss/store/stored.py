"""The answer of the store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class Stored(asyncio.Future[T]):
    """What a use case gave back, or why it was refused, once that is committed.

    `at_commit`, where somebody has set it, hears what a use case gave back that was alone in its
    commit: on the thread that writes, ahead of the event loop, which has to wake up first.
    """

    at_commit: Callable[[Any], None] | None = None
