"""Tokens, dollars and context of one process."""

from __future__ import annotations

from typing import Final

from shiftboss.orchestrator.agents.agent import Usage
from shiftboss.protocol.plan import PlanAgent

# What a token from a cache costs, of the price of one that is not.
CACHED_SHARE: Final = 0.1
DEFAULT_WINDOW: Final = 128_000
# By what the name of a model begins with; the longest counts.
_WINDOWS: Final = {
    "claude": 200_000,
    "sonnet": 200_000,
    "opus": 200_000,
    "haiku": 200_000,
    "gpt-4.1": 1_047_576,
    "gpt-5": 272_000,
    "codex": 272_000,
    "o3": 200_000,
    "o4": 200_000,
    "gemini": 1_048_576,
    "kimi": 256_000,
    "qwen3": 256_000,
    "glm": 200_000,
}


def context_window(model: str) -> int:
    """Of a model whose agent does not say so. Rather too small: then work is handed over early."""
    name = model.rpartition("/")[2].lower()
    if name.endswith("[1m]"):
        return 1_000_000
    known = [start for start in _WINDOWS if name.startswith(start)]
    return _WINDOWS[max(known, key=len)] if known else DEFAULT_WINDOW


class UsageMeter:
    """What the plan says of a window counts; then what the agent says; then the name of the model.
    What an agent says of the cost counts before prices of the plan."""

    def __init__(self, settings: PlanAgent) -> None:
        self._settings = settings
        self.model = settings.model or ""
        self.input_tokens = 0
        self.output_tokens = 0
        self.cached_tokens = 0
        self.told_dollars: float | None = None
        self.told_window: int | None = None
        self.context_tokens: int | None = None

    def usage(self) -> Usage:
        return Usage(
            input_tokens=self.input_tokens,
            output_tokens=self.output_tokens,
            cached_tokens=self.cached_tokens,
            dollars=self._dollars(),
            context_tokens=self.context_tokens,
            context_window=None if self.context_tokens is None else self._window(),
        )

    def _window(self) -> int:
        return self._settings.context_tokens or self.told_window or context_window(self.model)

    def _dollars(self) -> float | None:
        prices = (self._settings.input_price, self._settings.output_price)
        if self.told_dollars or prices == (None, None):
            return self.told_dollars
        read = self.input_tokens + self.cached_tokens * CACHED_SHARE
        return (read * (prices[0] or 0.0) + self.output_tokens * (prices[1] or 0.0)) / 1e6
