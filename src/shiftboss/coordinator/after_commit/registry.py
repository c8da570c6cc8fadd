"""The effects that a server runs after its commits."""

from __future__ import annotations

from typing import Final

from shiftboss.coordinator.after_commit.outcome_log import OUTCOME_LOG

EFFECTS: Final = (OUTCOME_LOG,)
