"""The process of one agent: started, read, and ended together with everything that it started.

Each agent has a guardian process, which enforces the limits and writes the log; see main.py. The
log has the whole output, whether it is read here or not. A reader that is too slow misses lines; it
neither slows the agent down nor fills the memory.
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
from shiftboss.defaults import ERROR_LOG
from shiftboss.evidence.commands.command import describe_exit
from shiftboss.orchestrator.guardian.connection import GuardianConnection, LineSplitter
from shiftboss.system.processes.descendants import module_argv
from shiftboss.system.processes.kill_marked import end_marked

RUN_MARK: Final = "SHIFTBOSS_RUN"
# A reader that never waits must not block the event loop.
LINES_IN_A_ROW: Final = 100
# A guardian that needs longer than this to end its agent was stopped by somebody else.
END_SECONDS: Final = 20.0

_GUARDIAN: Final = "shiftboss.orchestrator.guardian.main"

ExitCause = Literal[
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
    """The limits of an agent and everything that it starts. `log_megabytes` is how much of its
    standard output is kept, and as much again of its standard error. Above `output_megabytes` it is
    ended. `tree_*` limit the folder that it works in; `free_megabytes` is what must stay free on
    that disk."""

    megabytes: int = 8192
    processes: int = 1000
    output_megabytes: int = 1024
    log_megabytes: int = 64
    tree_megabytes: int = 20_480
    tree_files: int = 1_000_000
    free_megabytes: int = 1024


class Exit(NamedTuple):
    """`exit_code` is set if the agent exited by itself; it is negative for a signal. Otherwise
    `cause` is why it was ended. `detail` describes either one."""

    exit_code: int | None
    cause: ExitCause | None
    detail: str


_DETAILS: Final[dict[ExitCause, str]] = {
    "killed": "was ended",
    "memory": "used more than {limits.megabytes} MB of memory",
    "processes": "had more than {limits.processes} processes",
    "output": "printed more than {limits.output_megabytes} MB",
    "abandoned": "its guardian was killed",
    "unending": "left processes behind that cannot be killed",
}


def run_mark(state: Path, swarm_id: str, name: str = "") -> str:
    """The value of SHIFTBOSS_RUN for one attempt. Without `name`, the common prefix of a swarm.

    It contains a hash of the state folder: another project of the same user may have a swarm with
    the same name.
    """
    folder = hashlib.sha256(str(state.resolve()).encode()).hexdigest()[:16]
    return f"{folder}/{swarm_id}/{name}"


async def end_run_processes(mark: str) -> int:
    """End the processes that an earlier run left behind; returns how many there were. A mark that
    ends with a slash is a prefix. This process and its ancestors are spared."""
    return await asyncio.to_thread(end_marked, RUN_MARK, mark)


class AgentProcess:
    """`error_tail` is the end of its standard error; it is set when the agent has exited."""

    def __init__(self, connection: GuardianConnection, mark: str, limits: ProcessLimits) -> None:
        self._connection = connection
        self._limits = limits
        self.error_tail = ""
        self._settled = asyncio.create_task(self._settle(mark))

    @classmethod
    async def start(cls, launch: Launch, log: Path, limits: ProcessLimits) -> AgentProcess:
        """Standard output goes to `log`, standard error to `errors.log` beside it. Existing files
        are continued. A full file becomes `output.log.1`, so the end is always kept.

        If the agent cannot be started, `wait` returns the reason. SHIFTBOSS_RUN in the environment
        marks all its processes; see `run_mark`.
        """
        mark = launch.environment.get(RUN_MARK) or secrets.token_hex(16)
        # The guardian gets no environment: the agent could read it, and ours may contain secrets.
        _, connection = await asyncio.get_running_loop().subprocess_exec(
            GuardianConnection,
            *module_argv(_GUARDIAN, f"{RUN_MARK}={mark}"),
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env={},
            cwd="/",
            start_new_session=True,
        )
        connection.send(_job(launch, log, limits, mark))
        return cls(connection, mark, limits)

    @property
    def last_output_at(self) -> float:
        """When it last printed something, or else when it was started (`time.monotonic()`).
        Standard error counts, with a delay of up to a second."""
        return self._connection.last_output_at

    async def lines(self) -> AsyncIterator[str]:
        """The lines of its standard output, to the end. One reader at a time.

        A line of more than a megabyte is cut off. A slow reader misses the oldest lines, and may
        get one that was cut off; the log has all of them.
        """
        splitter = LineSplitter()
        count = 0
        while chunk := await self._connection.read():
            for text in splitter.cut(chunk):
                yield text
                count += 1
                if count % LINES_IN_A_ROW == 0:
                    await asyncio.sleep(0)
        if last := splitter.rest():
            yield last

    async def wait(self) -> Exit:
        """Wait until no process of it is left. There may still be lines to read."""
        return await asyncio.shield(self._settled)

    async def end(self, grace_seconds: float) -> Exit:
        """Send SIGTERM to its group and, after the grace period, SIGKILL to all its processes. It
        can be called again, also with a shorter grace period. A cancelled call still takes
        effect."""
        self._connection.send({"do": "end", "grace_seconds": grace_seconds})
        try:
            async with asyncio.timeout(grace_seconds + END_SECONDS):
                return await self.wait()
        except TimeoutError:
            self._connection.kill()
        return await self.wait()

    def pause(self) -> None:
        """Stop all its processes until `resume` is called or it is ended."""
        self._connection.send({"do": "pause"})

    def resume(self) -> None:
        self._connection.send({"do": "resume"})

    async def _settle(self, mark: str) -> Exit:
        report = await self._connection.gone
        if report is None:
            await end_run_processes(mark)
            return Exit(None, "abandoned", _DETAILS["abandoned"])
        self.error_tail = report["error_tail"]
        code, cause, detail = report["exit_code"], report["cause"], report["detail"]
        if cause is None:
            return Exit(code, None, describe_exit(code))
        return Exit(None, cause, detail or _DETAILS[cause].format(limits=self._limits))


def _job(launch: Launch, log: Path, limits: ProcessLimits, mark: str) -> dict[str, Any]:
    """The fields of `GuardianJob`. Paths are absolute: the guardian runs in another folder."""
    return {
        "argv": launch.argv,
        "folder": str(launch.folder.absolute()),
        "environment": {**launch.environment, RUN_MARK: mark},
        "stdin": b64encode(launch.stdin).decode(),
        "log": str(log.absolute()),
        "error_log": str(log.absolute().with_name(ERROR_LOG)),
        **asdict(limits),
    }
