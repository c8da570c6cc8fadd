"""Adds up the tokens, dollars and context of one agent process."""

from __future__ import annotations

from typing import Final

from shiftboss.agents.output_events import Usage
from shiftboss.protocol.plan import PlanAgent

# The price of a token read from a cache, as a share of the price of an input token.
CACHED_PRICE_SHARE: Final = 0.1
DEFAULT_WINDOW: Final = 128_000
# By the beginning of a model's name; the longest match counts.
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
    """The window of a model whose agent does not report it. If in doubt it is too small, so that
    work is handed over early rather than too late."""
    name = model.rpartition("/")[2].lower()
    if name.endswith("[1m]"):
        return 1_000_000
    matches = [start for start in _WINDOWS if name.startswith(start)]
    return _WINDOWS[max(matches, key=len)] if matches else DEFAULT_WINDOW


class UsageMeter:
    """The context window is that of the plan, else the reported one, else that of the model's name.
    Reported costs take precedence over the prices of the plan."""

    def __init__(self, settings: PlanAgent) -> None:
        self._settings = settings
        self.model = settings.model or ""
        self.input_tokens = 0
        self.output_tokens = 0
        self.cached_tokens = 0
        self.reported_dollars: float | None = None
        self.reported_window: int | None = None
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
        return self._settings.context_tokens or self.reported_window or context_window(self.model)

    def _dollars(self) -> float | None:
        prices = (self._settings.input_price, self._settings.output_price)
        if self.reported_dollars or prices == (None, None):
            return self.reported_dollars
        input_tokens = self.input_tokens + self.cached_tokens * CACHED_PRICE_SHARE
        return (input_tokens * (prices[0] or 0.0) + self.output_tokens * (prices[1] or 0.0)) / 1e6
