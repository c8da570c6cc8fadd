"""How agents end as real processes: asked, killed or abandoned, they leave nothing behind."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from shiftboss.orchestrator.guardian import agent_process as process_module
from shiftboss.orchestrator.guardian.agent_process import (
    RUN_MARK,
    Exit,
    end_run_processes,
    run_mark,
)
from tests.e2e.agents.agent_fixtures import (
    DEAF,
    KILLED,
    AgentHost,
    agent_room,
    lines_of,
    touch,
)
from tests.e2e.evidence.signing import DAEMON, FOREVER
from tests.waiting import eventually, wait_until

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("OWN-01")]

ABANDONED = Exit(None, "abandoned", "its guardian was killed")


@pytest.fixture
def host(tmp_path: Path) -> Iterator[AgentHost]:
    yield from agent_room(tmp_path)


async def test_an_agent_that_obeys_the_signal_gets_its_grace_period(host: AgentHost) -> None:
    program = (
        "import signal, sys\nsignal.signal(15, lambda *_: sys.exit(print('bye')))\n"
        "print('ready', flush=True)\n" + FOREVER
    )
    agent = await host.start(program)
    lines = agent.lines()
    assert await anext(lines) == "ready"
    started_at = time.monotonic()
    assert await agent.end(60) == KILLED
    assert time.monotonic() - started_at < 30
    assert [line async for line in lines] == ["bye"]


async def test_an_agent_that_ignores_the_signal_is_killed(host: AgentHost) -> None:
    agent = await host.start(DEAF + touch("deaf") + FOREVER)
    await eventually(lambda: host.is_there("deaf"), "it is deaf")
    assert await agent.end(0.3) == KILLED
    assert await agent.end(0.3) == KILLED


async def test_a_second_call_can_shorten_the_grace_period(host: AgentHost) -> None:
    agent = await host.start(DEAF + touch("deaf") + FOREVER)
    await eventually(lambda: host.is_there("deaf"), "it is deaf")
    patient = asyncio.create_task(agent.end(600))
    await asyncio.sleep(0)
    assert await agent.end(0) == KILLED
    assert await patient == KILLED


async def test_a_cancelled_call_still_ends_the_agent(host: AgentHost) -> None:
    agent = await host.start(DAEMON + FOREVER)
    await eventually(lambda: host.is_there("daemon"), "the daemon runs")
    ending = asyncio.create_task(agent.end(0))
    await asyncio.sleep(0)
    ending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ending
    assert await agent.wait() == KILLED


async def test_daemons_end_with_the_agent(host: AgentHost) -> None:
    agent = await host.start(DAEMON + "print('done')")
    assert await agent.wait() == Exit(0, None, "exit code 0")
    assert host.is_there("daemon")
    assert host.processes() == []


async def test_daemons_that_ignore_signals_are_killed_too(host: AgentHost) -> None:
    agent = await host.start(DEAF + DAEMON + FOREVER)
    await eventually(lambda: host.is_there("daemon"), "the daemon runs")
    assert len(host.processes()) == 2
    assert await agent.end(0.1) == KILLED
    assert host.processes() == []


async def test_the_signal_that_killed_an_agent_is_reported(host: AgentHost) -> None:
    agent = await host.start(DAEMON + "import os; os.kill(os.getpid(), 9)")
    assert await agent.wait() == Exit(-9, None, "killed by signal 9 (SIGKILL)")


async def test_an_agent_can_be_paused_and_resumed(host: AgentHost) -> None:
    agent = await host.start(DAEMON + FOREVER)
    await eventually(lambda: host.is_there("daemon"), "the daemon runs")
    agent.pause()
    await eventually(lambda: _states(host) == {psutil.STATUS_STOPPED}, "both stand still")
    agent.resume()
    await eventually(lambda: _states(host) == {psutil.STATUS_SLEEPING}, "both go on")
    agent.pause()
    await eventually(lambda: _states(host) == {psutil.STATUS_STOPPED}, "both stand still")
    started_at = time.monotonic()
    assert await agent.end(60) == KILLED
    assert time.monotonic() - started_at < 30


def _states(host: AgentHost) -> set[str]:
    return {process.status() for process in host.processes()}


async def test_an_agent_that_creates_too_many_files_is_ended(host: AgentHost) -> None:
    program = "for n in range(600): open(f'file-{n}', 'w').close()\n" + FOREVER
    agent = await host.start(program, tree_files=400)
    assert await agent.wait() == Exit(None, "disk", "its folder holds more than 400 files")


async def test_an_agent_that_writes_too_many_bytes_is_ended(host: AgentHost) -> None:
    program = (
        "import os\nos.makedirs('a/b')\n"
        "for n in range(30): open(f'a/b/{n}', 'wb').write(bytes([n]) * 1_000_000)\n" + FOREVER
    )
    agent = await host.start(program, tree_megabytes=20)
    assert await agent.wait() == Exit(None, "disk", "its folder holds more than 20 MB")


async def test_an_agent_that_leaves_too_little_disk_space_is_ended(host: AgentHost) -> None:
    agent = await host.start(FOREVER, free_megabytes=2**40)
    ended = await agent.wait()
    assert ended == Exit(None, "disk", f"its disk has less than {2**40} MB free")


async def test_an_agent_that_deletes_its_tree_can_still_be_ended(host: AgentHost) -> None:
    program = "import os, shutil\nshutil.rmtree(os.getcwd())\nprint('gone', flush=True)\n" + FOREVER
    agent = await host.start(program)
    assert await anext(agent.lines()) == "gone"
    assert not host.tree.exists()
    assert await agent.end(0) == KILLED


async def test_the_memory_limit_covers_all_processes(host: AgentHost) -> None:
    family = "import os\nfor _ in range(4):\n if os.fork() == 0: break\n"
    each = "kept = bytearray(b'x') * 60_000_000\n"
    agent = await host.start(family + each + FOREVER, megabytes=200)
    assert await agent.wait() == Exit(None, "memory", "used more than 200 MB of memory")


async def test_an_agent_with_too_many_processes_is_ended(host: AgentHost) -> None:
    swarm = "import os\nfor _ in range(150):\n if os.fork() == 0: break\n"
    agent = await host.start(swarm + FOREVER, processes=100)
    assert await agent.wait() == Exit(None, "processes", "had more than 100 processes")


async def test_processes_started_by_threads_are_found(host: AgentHost) -> None:
    program = (
        "import subprocess, sys, threading, time\n"
        f"argv = [sys.executable, '-I', '-S', '-c', {FOREVER!r}]\n"
        "def begin():\n for _ in range(5): subprocess.Popen(argv)\n time.sleep(1000)\n"
        "threading.Thread(target=begin).start()\n"
    )
    agent = await host.start(program + FOREVER, processes=4)
    assert (await agent.wait()).cause == "processes"


@contextmanager
def orchestrating(host: AgentHost) -> Iterator[None]:
    """In a separate process, which is killed at the end of the `with`."""
    program = f"""
import asyncio
from pathlib import Path
from shiftboss.agents.launch import Launch
from shiftboss.orchestrator.guardian.agent_process import AgentProcess, ProcessLimits
launch = Launch({host.launch(DEAF + DAEMON + FOREVER).argv!r}, Path({str(host.tree)!r}),
                {host.environment!r})
async def main():
    await (await AgentProcess.start(launch, Path({str(host.log)!r}), ProcessLimits())).wait()
asyncio.run(main())
"""
    with subprocess.Popen([sys.executable, "-c", program]) as process:
        try:
            wait_until(lambda: host.is_there("daemon"), "the daemon runs")
            yield
        finally:
            process.send_signal(signal.SIGKILL)


def test_nothing_is_left_when_the_orchestrator_dies(host: AgentHost) -> None:
    with orchestrating(host):
        assert len(host.processes()) == 2
    wait_until(lambda: not host.processes(), "nothing is left")


def test_nothing_is_left_when_both_die(host: AgentHost) -> None:
    """The daemon is: until the next orchestrator sweeps."""
    with orchestrating(host):
        host.guardians()[0].kill()
    wait_until(lambda: len(host.processes()) <= 1, "the agent has ended with its guardian")
    assert asyncio.run(end_run_processes(host.mark)) <= 1
    assert host.processes() == []


def test_a_sweep_ends_a_suspended_guardian_of_a_dead_orchestrator(host: AgentHost) -> None:
    with orchestrating(host):
        host.guardians()[0].suspend()
    assert len(host.processes()) == 2
    assert asyncio.run(end_run_processes(host.mark)) == 2
    assert host.processes() == []
    assert host.guardians() == []


async def test_nothing_is_left_when_the_guardian_dies(host: AgentHost) -> None:
    agent = await host.start(DEAF + DAEMON + "print('there', flush=True)\n" + FOREVER)
    lines = agent.lines()
    assert await anext(lines) == "there"
    (guardian,) = host.guardians()
    guardian.kill()
    assert [line async for line in lines] == []
    assert await agent.wait() == ABANDONED
    assert host.processes() == []


async def test_a_terminated_guardian_ends_its_agent(host: AgentHost) -> None:
    agent = await host.start(DAEMON + FOREVER)
    await eventually(lambda: host.is_there("daemon"), "the daemon runs")
    (guardian,) = host.guardians()
    guardian.terminate()
    assert await agent.wait() == ABANDONED


async def test_ending_an_agent_sweeps_away_its_suspended_guardian(
    host: AgentHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_module, "END_SECONDS", 0.5)
    agent = await host.start(DAEMON + FOREVER)
    await eventually(lambda: host.is_there("daemon"), "the daemon runs")
    (guardian,) = host.guardians()
    guardian.suspend()
    assert await agent.end(0) == ABANDONED


async def test_a_sweep_ends_only_processes_of_its_own_run(host: AgentHost, tmp_path: Path) -> None:
    """The leftovers of a run that lost its orchestrator and guardian at once."""
    marks = {
        "ours": run_mark(tmp_path, "swarm", "task.1"),
        "next": run_mark(tmp_path, "swarm", "task.10"),
        "other": run_mark(tmp_path, "swarm-2", "task.1"),
        "elsewhere": run_mark(tmp_path / "project", "swarm", "task.1"),
    }
    left = {name: _left_over(host, mark) for name, mark in marks.items()}
    try:
        assert await end_run_processes(marks["ours"]) == 1
        assert left["ours"].wait(10) == -signal.SIGKILL
        assert await end_run_processes(run_mark(tmp_path, "swarm")) == 1
        assert left["next"].wait(10) == -signal.SIGKILL
        assert await end_run_processes(run_mark(tmp_path, "swarm")) == 0
        assert left["other"].poll() is None
        assert left["elsewhere"].poll() is None
    finally:
        for process in left.values():
            process.kill()
            process.wait()


def _left_over(host: AgentHost, mark: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(host.launch(FOREVER).argv, env={**host.environment, RUN_MARK: mark})


async def test_a_sweep_spares_its_own_ancestors(host: AgentHost) -> None:
    """An agent may be working on Shiftboss itself, and run its orchestrator."""
    program = (
        f"import sys; sys.path.append({str(Path(process_module.__file__).parents[3])!r})\n"
        "from shiftboss.system.processes.kill_marked import end_marked\n"
        f"print(end_marked({RUN_MARK!r}, {host.mark!r}))"
    )
    agent = await host.start(program)
    assert await lines_of(agent) == ["0"]
    assert (await agent.wait()).exit_code == 0
