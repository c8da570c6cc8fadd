"""Chance that can be foreseen."""

from __future__ import annotations

from random import Random
from typing import Any


class First(Random):
    """Always takes the first."""

    def choice(self, seq: Any) -> Any:
        return seq[0]
