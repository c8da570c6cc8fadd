"""One agent as a process: started, listened to, and ended with everything that it started.

Each has a guardian, a process of its own, which keeps the limits and the log; see guardian.py. What
an agent prints is in the log, whether anybody listens here or not; who listens too slowly misses
lines, and neither the agent nor memory pays for it.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from asyncio.subprocess import PIPE
from base64 import b64encode
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from shiftboss.agents.launch import Launch
from shiftboss.evidence.commands.command import exit_words
from shiftboss.orchestrator.guardian.connection import GuardianConnection, LineSplitter
from shiftboss.system.kill_marked import end_marked
from shiftboss.system.processes import program_argv

RUN_MARK: Final = "SHIFTBOSS_RUN"
ERROR_LOG: Final = "errors.log"
# A listener that never waits must not keep the loop for itself.
LINES_IN_A_ROW: Final = 100
# The guardian ends what it started. One that takes longer than this was stopped from outside.
END_SECONDS: Final = 20.0

_GUARDIAN: Final = "shiftboss.orchestrator.guardian.main"

Cause = Literal[
    "killed",
    "memory",
    "processes",
    "output",
    "disk",
    "abandoned",
    "unending",
    "not_started",
]


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    """Of an agent and all that it starts. `log_megabytes` is how much of its output is kept, of its
    errors as much again; above `output_megabytes` it is ended. `tree_*` are what the folder that it
    works in may hold, and `free_megabytes` is what it has to leave free on that disk."""

    megabytes: int = 8192
    processes: int = 1000
    output_megabytes: int = 1024
    log_megabytes: int = 64
    tree_megabytes: int = 20_480
    tree_files: int = 1_000_000
    free_megabytes: int = 1024


class Exit(NamedTuple):
    """`exit_code` is there when the agent ended by itself, negative for a signal; else `cause` is
    why it was ended. `detail` says either in words."""

    exit_code: int | None
    cause: Cause | None
    detail: str


_DETAILS: Final[dict[Cause, str]] = {
    "killed": "was ended",
    "memory": "used more than {limits.megabytes} MB of memory",
    "processes": "had more than {limits.processes} processes",
    "output": "printed more than {limits.output_megabytes} MB",
    "abandoned": "its guardian was ended from outside",
    "unending": "left processes behind that cannot be ended",
}


def run_mark(state: Path, swarm_id: str, name: str = "") -> str:
    """The value of SHIFTBOSS_RUN for one attempt; without `name` what those of a swarm begin with.

    The state folder is in it: another project of the same account may have a swarm of that name.
    """
    folder = hashlib.sha256(str(state.resolve()).encode()).hexdigest()[:16]
    return f"{folder}/{swarm_id}/{name}"


async def sweep_marked(mark: str) -> int:
    """End what is left of a former run, and say how many processes that were. A mark that ends with
    a slash means all below it. This process and those above it are spared."""
    return await asyncio.to_thread(end_marked, RUN_MARK, mark)


class AgentProcess:
    """`error_tail` is the end of its errors, once it has ended."""

    def __init__(self, line: GuardianConnection, mark: str, limits: ProcessLimits) -> None:
        self._connection = line
        self._limits = limits
        self.error_tail = ""
        self._settled = asyncio.create_task(self._settle(mark))

    @classmethod
    async def start(cls, launch: Launch, log: Path, limits: ProcessLimits) -> AgentProcess:
        """The output goes to `log`, errors to `errors.log` beside it. Both are continued if they
        are there; a part that is full becomes `output.log.1`, so the end is always kept.

        What keeps it from starting is told by `wait`. SHIFTBOSS_RUN in the environment marks all
        its processes: see `run_mark`.
        """
        mark = launch.environment.get(RUN_MARK) or secrets.token_hex(16)
        # Without an environment: the agent could read it, and ours may hold secrets.
        _, line = await asyncio.get_running_loop().subprocess_exec(
            GuardianConnection,
            *program_argv(_GUARDIAN, f"{RUN_MARK}={mark}"),
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env={},
            cwd="/",
            start_new_session=True,
        )
        line.say(_job(launch, log, limits, mark))
        return cls(line, mark, limits)

    @property
    def last_output_at(self) -> float:
        """By `time.monotonic()`: when it was last seen to print, or else when it was started.
        Errors count, and are noticed up to a second late."""
        return self._connection.last_output_at

    async def lines(self) -> AsyncIterator[str]:
        """What it prints, line by line, to the end. One listener at a time.

        Of a line above a megabyte the beginning comes. Who is too slow misses lines, the oldest
        first, and may see one that was cut off; the log has them.
        """
        cutter = LineSplitter()
        passed = 0
        while chunk := await self._connection.read():
            for text in cutter.cut(chunk):
                yield text
                passed += 1
                if passed % LINES_IN_A_ROW == 0:
                    await asyncio.sleep(0)
        if last := cutter.rest():
            yield last

    async def wait(self) -> Exit:
        """Until nothing of it is left. Lines may still be waiting."""
        return await asyncio.shield(self._settled)

    async def end(self, grace_seconds: float) -> Exit:
        """SIGTERM to its group, and when the grace is over SIGKILL to everything below. May be
        repeated, also with a shorter grace; a call that is cancelled still has its effect."""
        self._connection.say({"do": "end", "grace_seconds": grace_seconds})
        try:
            async with asyncio.timeout(grace_seconds + END_SECONDS):
                return await self.wait()
        except TimeoutError:
            self._connection.kill()
        return await self.wait()

    def pause(self) -> None:
        """Everything of it stands still until `resume`, or until it is ended."""
        self._connection.say({"do": "pause"})

    def resume(self) -> None:
        self._connection.say({"do": "resume"})

    async def _settle(self, mark: str) -> Exit:
        report = await self._connection.gone
        if report is None:
            await sweep_marked(mark)
            return Exit(None, "abandoned", _DETAILS["abandoned"])
        self.error_tail = report["error_tail"]
        code, cause, detail = report["exit_code"], report["cause"], report["detail"]
        if cause is None:
            return Exit(code, None, exit_words(code))
        return Exit(None, cause, detail or _DETAILS[cause].format(limits=self._limits))


def _job(launch: Launch, log: Path, limits: ProcessLimits, mark: str) -> dict[str, Any]:
    """See `guardian.Job`, which runs elsewhere: its paths are absolute."""
    return {
        "argv": launch.argv,
        "folder": str(launch.folder.absolute()),
        "environment": {**launch.environment, RUN_MARK: mark},
        "stdin": b64encode(launch.stdin).decode(),
        "log": str(log.absolute()),
        "error_log": str(log.absolute().with_name(ERROR_LOG)),
        **asdict(limits),
    }
