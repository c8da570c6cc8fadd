"""Any program as an agent. It may report on itself with lines of JSON; see `CommandOutput`."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from shiftboss.agents.agent import Agent
from shiftboss.agents.launch import AgentWorkspace, Launch, launch
from shiftboss.agents.output_events import (
    AgentActivity,
    Allowed,
    Denied,
    Finished,
    OutputReader,
    RateLimited,
    Signal,
)
from shiftboss.agents.output_lines import (
    amount,
    brief,
    count,
    find_rate_limit,
    message,
    parse_object,
    text,
)
from shiftboss.agents.usage_meter import UsageMeter
from shiftboss.protocol.plan import PlanAgent
from shiftboss.system.private_files import write_private

_PLACEHOLDER: Final = re.compile(r"\{(prompt_file|tree|task|worker|model|server)\}")


class Command(Agent):
    """The prompt is in a file, on standard input and in SHIFTBOSS_PROMPT. Only the git hooks and
    the server check the work: the program has no agent hooks."""

    kind = "command"
    has_tools = False
    report_member = "shiftboss"
    why_no_resume = "it is your own program, and only it knows its sessions"

    def launch(
        self, workspace: AgentWorkspace, settings: PlanAgent, prompt: str, model: str | None
    ) -> Launch:
        file = write_private(workspace.scratch / "prompt.md", prompt)
        values = {
            "prompt_file": str(file),
            "tree": str(workspace.tree),
            "task": workspace.task_id,
            "worker": workspace.worker,
            "model": model or settings.model or "",
            "server": workspace.server_url,
        }
        start = launch(workspace, settings, "", [], prompt, {"SHIFTBOSS_PROMPT": str(file)})
        # All in one pass: a placeholder inside a value is not replaced.
        argv = [_PLACEHOLDER.sub(lambda match: values[match[1]], part) for part in start.argv]
        return replace(start, argv=argv)

    def reader(self, settings: PlanAgent) -> OutputReader:
        return CommandOutput(settings)

    def why_unavailable(self, settings: PlanAgent) -> str | None:
        if not settings.command:
            return "the plan does not set the `command` of the agent"
        program = settings.command[0]
        if "{" in program or shutil.which(program) is not None:
            return None
        return f"{program} is not on the PATH. Install it, or write its full path into the plan"


class CommandOutput:
    """A line counts if it is a JSON object with the member `shiftboss`:

    `usage`: input_tokens, output_tokens, cached_tokens, dollars, context_tokens, context_window,
    all so far; `denied`: tool, error; `allowed`: tool; `rate_limited`: message, until (seconds
    since 1970); `did`: text; `finished`: ok, message. All other lines go to the log only.
    """

    def __init__(self, settings: PlanAgent, now: Callable[[], float] = time.time) -> None:
        self._meter = UsageMeter(settings)
        self._now = now

    def read(self, line: str) -> list[Signal]:
        event = parse_object(line)
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
                reason = brief(text(event.get("message")), 500) or "the quota is used up"
                return [RateLimited(reason, amount(event.get("until")))]
            case "did":
                activity = brief(text(event.get("text")))
                return [AgentActivity(activity)] if activity else []
            case "finished":
                return [Finished(event.get("ok") is True, message(text(event.get("message"))))]
        return []

    def ended(self, exit_code: int | None, error_tail: str) -> list[Signal]:
        """The program may have started an agent whose errors it passes on."""
        limit = None if exit_code == 0 else find_rate_limit(error_tail, self._now())
        return [limit] if limit else []

    def _usage(self, event: dict[str, Any]) -> Signal:
        meter = self._meter
        meter.input_tokens = count(event.get("input_tokens"))
        meter.output_tokens = count(event.get("output_tokens"))
        meter.cached_tokens = count(event.get("cached_tokens"))
        meter.reported_dollars = amount(event.get("dollars"))
        meter.reported_window = count(event.get("context_window")) or None
        context_tokens = amount(event.get("context_tokens"))
        meter.context_tokens = None if context_tokens is None else int(context_tokens)
        return meter.usage()


AGENT: Final = Command()
