"""Commands of a contract as real processes, which leave nothing behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from shiftboss.evidence.commands import command, supervisor_process
from shiftboss.evidence.commands.command import (
    Limits,
    checkout_environment,
    run_command,
)
from shiftboss.rules.claims.criteria import CommandResult
from shiftboss.system.processes.descendants import children_of, start_ticks
from tests.e2e.evidence.signing import DAEMON, FOREVER, Signed
from tests.waiting import eventually, wait_until

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("HO-05")]

LIMITS = Limits(seconds=30, megabytes=512)


class CommandRunner(Signed):
    """Runs commands in a folder, and knows their processes."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder / "checkout"
        self.folder.mkdir()
        self.environment = {**checkout_environment([], folder / "home"), "SIGN": self.sign}

    async def run(self, *argv: str, limits: Limits = LIMITS) -> CommandResult:
        return await run_command(argv, self.folder, limits, self.environment)

    async def python(self, program: str, limits: Limits = LIMITS) -> CommandResult:
        return await self.run(sys.executable, "-c", program, limits=limits)

    def is_there(self, name: str) -> bool:
        return (self.folder / name).exists()


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[CommandRunner]:
    runner = CommandRunner(tmp_path)
    try:
        yield runner
        assert runner.processes() == []
    finally:
        runner.kill_all()


async def test_a_command_that_exits_with_zero_passes(runner: CommandRunner) -> None:
    result = await runner.run("sh", "-c", "echo out; echo err >&2; pwd")
    assert (result.exit_code, result.message) == (0, "exit code 0")
    assert result.output_tail == f"out\nerr\n{runner.folder}\n"
    assert not result.timed_out
    assert not result.out_of_memory


async def test_the_exit_code_and_the_duration_are_evidence(runner: CommandRunner) -> None:
    result = await runner.python("import sys, time; time.sleep(0.2); sys.exit(3)")
    assert (result.exit_code, result.message) == (3, "exit code 3")
    assert 200 <= result.duration_ms < 20_000


async def test_commands_are_not_run_by_a_shell(runner: CommandRunner) -> None:
    result = await runner.run("echo", "$HOME", "*", ";", "exit", "1")
    assert result.output_tail == "$HOME * ; exit 1\n"


async def test_the_standard_input_of_a_command_is_empty(runner: CommandRunner) -> None:
    assert (await runner.run("cat")).exit_code == 0


async def test_a_command_that_never_ends_is_ended(runner: CommandRunner) -> None:
    result = await runner.python(FOREVER, Limits(seconds=1, megabytes=512))
    assert result.timed_out
    assert (result.exit_code, result.message) == (None, "timed out after 1 s")


async def test_a_command_that_ignores_signals_is_ended(runner: CommandRunner) -> None:
    deaf = "import signal\nfor n in (1, 2, 15): signal.signal(n, signal.SIG_IGN)\n"
    assert (await runner.python(deaf + FOREVER, Limits(seconds=1, megabytes=512))).timed_out


async def test_a_command_that_prints_forever_is_ended(runner: CommandRunner) -> None:
    result = await runner.run("yes")
    assert (result.exit_code, result.message) == (None, "printed too much")
    assert len(result.output_tail) < 70_000


async def test_the_end_of_a_long_output_is_kept(runner: CommandRunner) -> None:
    program = "for n in range(100_000): print('line', n)"
    tail = (await runner.python(program)).output_tail
    assert tail.endswith("line 99998\nline 99999\n")
    note, _, kept = tail.partition("\n")
    assert len(kept.encode()) == LIMITS.output_bytes
    assert note == f"[the first {1_088_890 - LIMITS.output_bytes} bytes are left out]"


async def test_binary_output_can_be_kept(runner: CommandRunner) -> None:
    result = await runner.python(r"import sys; sys.stdout.buffer.write(b'a\0b\xff\xc3')")
    assert result.output_tail == "a\ufffdb\ufffd\ufffd"


async def test_a_command_that_closes_its_output_is_still_waited_for(runner: CommandRunner) -> None:
    program = "import os, sys, time; os.closerange(0, 3); time.sleep(0.3); os._exit(4)"
    assert (await runner.python(program)).exit_code == 4


async def test_a_command_that_forks_and_exits_leaves_nothing(runner: CommandRunner) -> None:
    """Nor does it wait for the child, which keeps the output open."""
    result = await runner.run("sh", "-c", "sleep 1000 & echo started")
    assert (result.exit_code, result.output_tail) == (0, "started\n")
    assert result.duration_ms < 20_000
    assert runner.processes() == []


async def test_a_daemon_in_its_own_session_is_found(runner: CommandRunner) -> None:
    result = await runner.python(DAEMON)
    assert result.exit_code == 0
    assert runner.is_there("daemon")
    assert runner.processes() == []


async def test_a_chain_of_processes_that_fork_and_exit_is_caught(runner: CommandRunner) -> None:
    chain = (
        "import os\nif os.fork() == 0:\n while True:\n  if os.fork(): os._exit(0)\n  os.setsid()\n"
    )
    result = await runner.python(chain + FOREVER, Limits(seconds=1, megabytes=512))
    assert result.timed_out
    assert runner.processes() == []


async def test_a_command_with_too_many_processes_is_ended(runner: CommandRunner) -> None:
    swarm = "import os\nfor _ in range(1100):\n if os.fork() == 0: break\n"
    result = await runner.python(swarm + FOREVER, Limits(seconds=60, megabytes=65_536))
    assert (result.exit_code, result.message) == (None, "started too many processes")


async def test_a_memory_hog_is_ended(runner: CommandRunner) -> None:
    hog = "kept = []\nwhile True: kept.append(bytearray(b'x') * 1_000_000)\n"
    result = await runner.python(hog, Limits(seconds=60, megabytes=200))
    assert result.out_of_memory
    assert (result.exit_code, result.message) == (None, "used more than 200 MB of memory")


async def test_the_memory_limit_covers_all_processes(runner: CommandRunner) -> None:
    family = "import os\nfor _ in range(4):\n if os.fork() == 0: break\n"
    each = "kept = bytearray(b'x') * 60_000_000\n"
    result = await runner.python(family + each + FOREVER, Limits(seconds=60, megabytes=200))
    assert result.out_of_memory


async def test_shared_memory_counts_once(runner: CommandRunner) -> None:
    """Five processes that see the same 120 MB, for several looks at them."""
    program = """
import os, time
kept = bytearray(b"x") * 120_000_000
for _ in range(4):
    if os.fork() == 0: break
time.sleep(0.6)
"""
    assert (await runner.python(program, Limits(seconds=60, megabytes=300))).exit_code == 0


async def test_core_files_big_files_and_many_open_files_are_limited(runner: CommandRunner) -> None:
    program = "import resource as r; print(*map(r.getrlimit, (r.RLIMIT_CORE, r.RLIMIT_FSIZE)))"
    result = await runner.python(program)
    assert result.output_tail == f"(0, 0) ({4 * 2**30}, {4 * 2**30})\n"
    hoarder = "kept = [open('/dev/null') for _ in range(5000)]"
    assert "Too many open files" in (await runner.python(hoarder)).output_tail


async def test_a_missing_program_is_named(runner: CommandRunner) -> None:
    for name in ("no-such-program", "./no-such-program"):
        result = await runner.run(name)
        assert (result.exit_code, result.message) == (None, f"not found: {name}")


# The limits cannot be set here. Prints why the command was not run.
UNPREPARED = """
import errno, os
from shiftboss.evidence.commands import supervisor
def limit_child(**limits): raise OSError(errno.EPERM, "limits: Operation not permitted")
supervisor.limit_child = limit_child
for namespaces in (None, supervisor.Namespaces([], True)):
    job = supervisor.CommandJob(["true"], ".", dict(os.environ), 5, 64, 1000, [], namespaces)
    result = supervisor.Supervisor(job).run()
    print(result["cause"], result["detail"], sep=": ")
"""


def test_only_a_command_with_a_sandbox_cannot_be_contained() -> None:
    printed = subprocess.check_output([sys.executable, "-c", UNPREPARED], text=True)
    assert printed.splitlines() == [
        "not_started: cannot be started: limits: Operation not permitted",
        "not_contained: limits: Operation not permitted",
    ]


async def test_a_file_that_is_not_a_program_cannot_be_started(runner: CommandRunner) -> None:
    (runner.folder / "data").write_text("nothing to run")
    result = await runner.run("./data")
    assert result.exit_code is None
    assert "cannot be started" in result.message


async def test_the_signal_that_killed_a_command_is_named(runner: CommandRunner) -> None:
    result = await runner.run("sh", "-c", "kill -SEGV $$")
    assert (result.exit_code, result.message) == (-11, "killed by signal 11 (SIGSEGV)")


async def test_a_program_in_the_checkout_runs_only_when_called_by_its_path(
    runner: CommandRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = runner.folder / "tool"
    tool.write_text("#!/bin/sh\necho from the checkout\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f":.:./bin:{os.environ['PATH']}:")
    runner.environment |= checkout_environment([], tmp_path / "home")
    assert (await runner.run("tool")).message == "not found: tool"
    assert (await runner.run("./tool")).output_tail == "from the checkout\n"


async def test_the_servers_secrets_are_not_in_the_environment(
    runner: CommandRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("API_TOKEN", "SHIFTBOSS_TOKEN", "LD_PRELOAD", "PYTHONPATH", "VIRTUAL_ENV"):
        monkeypatch.setenv(name, "" if name == "LD_PRELOAD" else "hunter2")
    monkeypatch.setenv("WANTED", "yes")
    named = ["WANTED", "MISSING", "SHIFTBOSS_TOKEN", "LD_PRELOAD"]
    runner.environment = {**checkout_environment(named, tmp_path / "home"), "SIGN": runner.sign}
    result = await runner.run("sh", "-c", "env; tr '\\0' '\\n' < /proc/$PPID/environ")
    seen = dict(line.split("=", 1) for line in result.output_tail.splitlines())
    assert "hunter2" not in result.output_tail
    assert {"API_TOKEN", "SHIFTBOSS_TOKEN", "LD_PRELOAD", "PYTHONPATH"}.isdisjoint(seen)
    assert (seen["WANTED"], seen["CI"], seen["LC_ALL"]) == ("yes", "1", "C.UTF-8")


async def test_home_is_empty_except_for_a_temporary_folder(
    runner: CommandRunner, tmp_path: Path
) -> None:
    result = await runner.run("sh", "-c", "ls -A $HOME; mktemp")
    home = tmp_path / "home"
    assert result.output_tail.startswith(f"tmp\n{home}/tmp/")


async def test_an_explicit_python_path_is_passed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    assert checkout_environment(["PYTHONPATH"], tmp_path)["PYTHONPATH"] == "/somewhere"


async def test_a_cancelled_command_ends_at_once(runner: CommandRunner) -> None:
    running = asyncio.create_task(runner.python(DAEMON + FOREVER))
    await eventually(lambda: runner.is_there("daemon"), "the daemon runs")
    assert len(runner.processes()) == 2
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert runner.processes() == []


@pytest.mark.parametrize("how", ["KILL", "TERM"])
async def test_a_command_that_ends_its_supervisor_fails_and_leaves_nothing(
    runner: CommandRunner, how: str
) -> None:
    end_parent = f"import os, signal\nos.kill(os.getppid(), signal.SIG{how})\n"
    result = await runner.python(DAEMON + end_parent + FOREVER)
    assert runner.is_there("daemon")
    assert result.exit_code is None
    assert "killed from outside" in result.message
    assert runner.processes() == []


async def test_a_command_that_stops_its_supervisor_fails_and_leaves_nothing(
    runner: CommandRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "_GRACE_SECONDS", 0.5)
    stop_parent = "import os, signal\nos.kill(os.getppid(), signal.SIGSTOP)\n"
    result = await runner.python(DAEMON + stop_parent, Limits(seconds=1, megabytes=512))
    assert runner.is_there("daemon")
    assert result.exit_code is None
    assert runner.processes() == []


async def test_a_command_outlives_the_fork_server_of_its_supervisor(runner: CommandRunner) -> None:
    kill_grandparent = f"""
import os, signal
stat = open(f"/proc/{{os.getppid()}}/stat").read()
os.kill(int(stat.rpartition(")")[2].split()[1]), signal.SIGKILL)
{DAEMON}
print("went on")
"""
    result = await runner.python(kill_grandparent)
    assert (result.exit_code, result.output_tail) == (0, "went on\n")
    assert runner.processes() == []
    assert (await runner.run("true")).exit_code == 0


async def test_a_fork_server_that_was_stopped_is_replaced(
    runner: CommandRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor_process, "_START_SECONDS", 0.5)
    assert (await runner.run("true")).exit_code == 0
    stopped = supervisor_process.FORK_SERVER._pid
    os.kill(stopped, signal.SIGSTOP)
    assert (await runner.run("true")).exit_code == 0
    assert start_ticks(stopped) is None


async def test_a_cancelled_start_leaves_no_supervisor(runner: CommandRunner) -> None:
    assert (await runner.run("true")).exit_code == 0
    starts = [asyncio.ensure_future(runner.python(FOREVER)) for _ in range(20)]
    for number, start in enumerate(starts):
        for _ in range(number):
            await asyncio.sleep(0)
        start.cancel()
    await asyncio.gather(*starts, return_exceptions=True)
    assert all(start.cancelled() for start in starts)
    server = supervisor_process.FORK_SERVER._pid
    await eventually(lambda: not children_of(server), "no supervisor is left")


def test_nothing_is_left_when_the_server_dies(runner: CommandRunner) -> None:
    server = f"""
import asyncio, sys
from pathlib import Path
from shiftboss.evidence.commands.command import Limits, run_command
argv = [sys.executable, "-c", {DAEMON + FOREVER!r}]
folder = Path({str(runner.folder)!r})
asyncio.run(run_command(argv, folder, Limits(600, 512), {runner.environment!r}))
"""
    with subprocess.Popen([sys.executable, "-c", server]) as process:
        try:
            wait_until(lambda: runner.is_there("daemon"), "the daemon runs")
            assert len(runner.processes()) == 2
        finally:
            process.send_signal(signal.SIGKILL)
    wait_until(lambda: not runner.processes(), "nothing is left")


async def test_many_commands_can_run_at_once(runner: CommandRunner) -> None:
    results = await asyncio.gather(*(runner.run("sh", "-c", f"exit {n}") for n in range(12)))
    assert [result.exit_code for result in results] == list(range(12))
