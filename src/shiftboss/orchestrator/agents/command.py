"""Any program. What it may say of itself are lines of JSON; see `CommandOutput`."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from shiftboss.orchestrator.agents.agent import (
    Allowed,
    Denied,
    Did,
    Finished,
    Launch,
    OutputReader,
    RateLimited,
    Signal,
    launch,
    write_private,
)
from shiftboss.orchestrator.agents.output_lines import (
    amount,
    brief,
    count,
    limit_in,
    message,
    parsed,
    text,
)
from shiftboss.orchestrator.agents.usage_meter import UsageMeter
from shiftboss.orchestrator.attempt.workspace import Workspace
from shiftboss.protocol.plan import PlanAgent

_PLACEHOLDER: Final = re.compile(r"\{(prompt_file|tree|task|worker|model|server)\}")


class Command:
    """The prompt is in a file, on standard input and in SHIFTBOSS_PROMPT. It is checked by the
    hooks of git alone, and by the server."""

    kind = "command"
    speaks = False

    def launch(
        self, seat: Workspace, settings: PlanAgent, prompt: str, model: str | None
    ) -> Launch:
        file = write_private(seat.scratch / "prompt.md", prompt)
        values = {
            "prompt_file": str(file),
            "tree": str(seat.tree),
            "task": seat.assignment.bead_id,
            "worker": seat.assignment.worker,
            "model": model or settings.model or "",
            "server": seat.server_url,
        }
        start = launch(seat, settings, "", [], prompt, {"SHIFTBOSS_PROMPT": str(file)})
        # All at once: what stands in a value is not replaced again.
        argv = [_PLACEHOLDER.sub(lambda match: values[match[1]], part) for part in start.argv]
        return replace(start, argv=argv)

    def reader(self, settings: PlanAgent) -> OutputReader:
        return CommandOutput(settings)

    def found(self, settings: PlanAgent) -> str | None:
        if not settings.command:
            return "`command` of the agent names no program"
        if "{" in settings.command[0] or shutil.which(settings.command[0]) is not None:
            return None
        return f"{settings.command[0]} is not on the PATH"


class CommandOutput:
    """A line is understood when it is a JSON object with the member `shiftboss`:

    `usage`: input_tokens, output_tokens, cached_tokens, dollars, context_tokens, context_window,
    all so far; `denied`: tool, error; `allowed`: tool; `rate_limited`: message, until (seconds
    since 1970); `did`: text; `finished`: ok, message. All else is for the log.
    """

    def __init__(self, settings: PlanAgent, now: Callable[[], float] = time.time) -> None:
        self._meter = UsageMeter(settings)
        self._now = now

    def read(self, line: str) -> list[Signal]:
        event = parsed(line)
        if event is None:
            return []
        tool = brief(text(event.get("tool"))) or "a tool"
        operation = brief(text(event.get("operation"))) or None
        match event.get("shiftboss"):
            case "usage":
                return [self._usage(event)]
            case "denied":
                return [Denied(tool, message(text(event.get("error"))), operation)]
            case "allowed":
                return [Allowed(tool, operation)]
            case "rate_limited":
                words = brief(text(event.get("message")), 500) or "the quota is used up"
                return [RateLimited(words, amount(event.get("until")))]
            case "did":
                words = brief(text(event.get("text")))
                return [Did(words)] if words else []
            case "finished":
                return [Finished(event.get("ok") is True, message(text(event.get("message"))))]
        return []

    def ended(self, exit_code: int | None, error_tail: str) -> list[Signal]:
        """A program that starts an agent of its own passes on what that one says."""
        limit = None if exit_code == 0 else limit_in(error_tail, self._now())
        return [limit] if limit else []

    def _usage(self, event: dict[str, Any]) -> Signal:
        meter = self._meter
        meter.input_tokens = count(event.get("input_tokens"))
        meter.output_tokens = count(event.get("output_tokens"))
        meter.cached_tokens = count(event.get("cached_tokens"))
        meter.told_dollars = amount(event.get("dollars"))
        meter.told_window = count(event.get("context_window")) or None
        told = amount(event.get("context_tokens"))
        meter.context_tokens = None if told is None else int(told)
        return meter.usage()


AGENT: Final = Command()
