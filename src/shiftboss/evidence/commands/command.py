"""Running the commands of a contract: no shell, a scrubbed environment, limits on time, memory and
output, and no process left behind. Each command has a supervisor process; see supervisor.py."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import shutil
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from shiftboss.evidence.commands.namespaces import Namespaces
from shiftboss.evidence.commands.supervisor_process import SupervisorProcess, start_supervisor
from shiftboss.rules.claims.criteria import CommandResult
from shiftboss.rules.claims.environment_variables import is_variable_allowed
from shiftboss.system.processes.kill_marked import end_marked
from shiftboss.system.processes.orphans import ORPHANS

# The supervisor enforces the time limit and then kills what it started. If it takes this much
# longer, it was stopped from outside, perhaps by the command.
_GRACE_SECONDS: Final = 20.0
_RELEASE_SECONDS: Final = 15.0
# Every process of a command inherits this variable, with a value per command. It identifies them if
# the supervisor is killed.
_MARK: Final = "SHIFTBOSS_COMMAND"
# Shims on PATH look for the real tools in the home folder, and a command gets an empty one.
_TOOL_FOLDERS: Final = {
    "RUSTUP_HOME": ".rustup",
    "VOLTA_HOME": ".volta",
    "ASDF_DATA_DIR": ".asdf",
    "MISE_DATA_DIR": ".local/share/mise",
}


@dataclass(frozen=True, slots=True)
class Limits:
    """`output_bytes`: how much of the end of the output is kept."""

    seconds: float
    megabytes: int
    output_bytes: int = 65_536


@dataclass(frozen=True, slots=True)
class CommandSandbox:
    """The containment of a command: its name in verdicts, and its mechanism; see sandbox.py.

    `wrapper` is the command line of a program that contains the command. `refusal`: the command is
    not run at all, because the policy requires a sandbox.
    """

    name: str
    wrapper: Sequence[str] = ()
    namespaces: Namespaces | None = None
    refusal: str | None = None


async def run_command(
    argv: Sequence[str],
    folder: Path,
    limits: Limits,
    environment: Mapping[str, str],
    sandbox: CommandSandbox | None = None,
) -> CommandResult:
    """Run a command. The program is searched for on the PATH of `environment`; a relative path
    means a file in `folder`. No process of the command is left, even after a cancellation."""
    name = sandbox.name if sandbox is not None else None
    if sandbox is not None and sandbox.refusal is not None:
        refused = _not_run(f"not run: {sandbox.refusal}", name)
        return replace(refused, sandbox_is_missing=True)
    if sandbox is not None and sandbox.wrapper and not _is_program(argv[0], folder, environment):
        is_missing = _is_missing_program(argv[0], folder, environment)
        return replace(_not_run(f"not found: {argv[0]}", name), program_is_missing=is_missing)
    answer = await _supervise(argv, folder, limits, environment, sandbox)
    try:
        result = _result(json.loads(answer), limits)
        is_missing = result.exit_code is None and _is_missing_program(argv[0], folder, environment)
        return replace(result, sandbox=name, program_is_missing=is_missing)
    except json.JSONDecodeError:  # empty or incomplete
        return _not_run("its supervisor was killed from outside", name)


def _not_run(message: str, sandbox: str | None) -> CommandResult:
    return CommandResult(None, False, False, "", 0, message, sandbox)


def _is_program(name: str, folder: Path, environment: Mapping[str, str]) -> bool:
    """A wrapper would report a missing program as a failure of its own."""
    if "/" in name:
        return (folder / name).exists()
    return shutil.which(name, path=environment.get("PATH")) is not None


def _is_missing_program(name: str, folder: Path, environment: Mapping[str, str]) -> bool:
    """A path is part of the checkout, so a missing one says something about the work."""
    return "/" not in name and not _is_program(name, folder, environment)


async def _supervise(
    argv: Sequence[str],
    folder: Path,
    limits: Limits,
    environment: Mapping[str, str],
    sandbox: CommandSandbox | None,
) -> bytes:
    """The answer of the supervisor; empty if it was killed."""
    mark = secrets.token_hex(16)
    job = {
        "argv": list(argv),
        "folder": str(folder),
        "environment": {**environment, _MARK: mark},
        "seconds": limits.seconds,
        "megabytes": limits.megabytes,
        "output_bytes": limits.output_bytes,
        "wrapper": list(sandbox.wrapper) if sandbox is not None else [],
        "namespaces": sandbox.namespaces if sandbox is not None else None,
    }
    supervisor = await start_supervisor()
    ORPHANS.keep(supervisor.pid)
    try:
        async with asyncio.timeout(limits.seconds + _GRACE_SECONDS):
            return await supervisor.ask(json.dumps(job).encode() + b"\n")
    except TimeoutError:
        supervisor.kill()
        return b""
    finally:
        await _release(supervisor, mark)


async def _release(supervisor: SupervisorProcess, mark: str) -> None:
    code = await supervisor.release(_RELEASE_SECONDS)
    ORPHANS.forget(supervisor.pid)
    if code != 0:
        await asyncio.to_thread(end_marked, _MARK, mark)
        await ORPHANS.end()
    ORPHANS.reap()


def _result(answer: dict[str, Any], limits: Limits) -> CommandResult:
    tail = answer["output_tail"].replace("\0", "\ufffd")  # PostgreSQL cannot hold NUL
    if answer["printed_bytes"] > limits.output_bytes:
        omitted = answer["printed_bytes"] - limits.output_bytes
        tail = f"[the first {omitted} bytes are left out]\n{tail}"
    return CommandResult(
        exit_code=answer["exit_code"],
        timed_out=answer["cause"] == "time",
        out_of_memory=answer["cause"] == "memory",
        output_tail=tail,
        duration_ms=answer["duration_ms"],
        message=_message(answer, limits),
    )


def _message(answer: dict[str, Any], limits: Limits) -> str:
    code, cause = answer["exit_code"], answer["cause"]
    if cause == "not_started":
        return str(answer["detail"])
    if cause == "not_contained":
        return f"cannot be contained: {answer['detail']}"
    if cause is not None:
        return {
            "time": f"timed out after {limits.seconds:g} s",
            "memory": f"used more than {limits.megabytes} MB of memory",
            "processes": "started too many processes",
            "output": "printed too much",
            "unending": "left processes behind that cannot be killed",
            "abandoned": "was killed from outside",
        }[cause]
    return describe_exit(code)


def describe_exit(code: int) -> str:
    if code < 0:
        return f"killed by signal {-code} ({_signal_name(-code)})"
    return f"exit code {code}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # real-time signals have no name
        return "real-time"


def checkout_environment(names: Sequence[str], home: Path) -> dict[str, str]:
    """The variables for a command; creates the two folders that they name.

    Of the server's variables, only PATH and those in `names` are passed. Relative and empty entries
    of PATH are dropped: they would mean the checkout, where a worker can put its own `python`.
    """
    temporary = home / "tmp"
    temporary.mkdir(mode=0o700, parents=True, exist_ok=True)
    passed = {
        name: os.environ[name] for name in names if is_variable_allowed(name) and name in os.environ
    }
    fixed = {
        "PATH": _absolute_entries(os.environ.get("PATH", os.defpath)),
        "HOME": str(home),
        "TMPDIR": str(temporary),
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "CI": "1",
        "NO_COLOR": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONNOUSERSITE": "1",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
    }
    return passed | _tool_folders() | fixed


def _tool_folders() -> dict[str, str]:
    home = Path.home()
    folders = {
        name: Path(os.environ.get(name) or home / usual) for name, usual in _TOOL_FOLDERS.items()
    }
    return {name: str(folder) for name, folder in folders.items() if folder.is_dir()}


def _absolute_entries(path: str) -> str:
    return os.pathsep.join(entry for entry in path.split(os.pathsep) if entry.startswith("/"))
