"""Starting a program can be cancelled at any moment: nothing hangs and nothing is left over."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import psutil
import pytest

from shiftboss.evidence.commands.command import Limits, run_command
from shiftboss.orchestrator.git.runner import run_git
from shiftboss.system.git import git
from shiftboss.system.processes.child_process import start_process
from tests.waiting import wait_until

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("HO-04")]

TIMES = 25
Start = Callable[[Path], Awaitable[object]]


def ours() -> set[int]:
    """Our children and theirs, without the reapers. A zombie is one that nobody has waited for."""
    return {
        child.pid
        for child in psutil.Process().children(recursive=True)
        if not _is_gone_or_reaper(child)
    }


def _is_gone_or_reaper(child: psutil.Process) -> bool:
    try:
        return any(word.endswith("git_reaper.py") for word in child.cmdline())
    except psutil.ZombieProcess:
        return False
    except psutil.NoSuchProcess:
        return True


def _is_supervisor(pid: int) -> bool:
    """Or the process that forks them: of a test before this one."""
    try:
        return any("fork_server" in word for word in psutil.Process(pid).cmdline())
    except psutil.Error:
        return True


async def of_evidence(folder: Path) -> object:
    return await git(["hash-object", "--stdin"], folder, stdin=b"x" * 100)


async def of_orchestrator(folder: Path) -> object:
    return await run_git(["hash-object", "--stdin"], folder, stdin=b"x" * 100)


async def of_a_contract(folder: Path) -> object:
    environment = {"PATH": os.environ["PATH"]}
    return await run_command(["sleep", "60"], folder, Limits(60, 512), environment)


@pytest.mark.parametrize("start", [of_evidence, of_orchestrator, of_a_contract])
async def test_a_start_can_be_cancelled_at_every_step(start: Start, tmp_path: Path) -> None:
    """One step of the event loop later each time: before, during and after connecting the pipes."""
    # The fork server of supervisors stays as long as this process.
    await run_command(["true"], tmp_path, Limits(60, 512), {"PATH": os.environ["PATH"]})
    before = ours()
    for number in range(TIMES):
        running = asyncio.ensure_future(start(tmp_path))
        for _ in range(number):
            await asyncio.sleep(0)
        running.cancel()
        async with asyncio.timeout(60):
            await asyncio.wait((running,))
        assert running.cancelled() or running.exception() is None
    # A supervisor that was asked for and not awaited ends by itself.
    wait_until(lambda: ours() <= before, "nothing is left")


@pytest.mark.parametrize("run", [git, run_git])
async def test_a_cancelled_git_ends_with_children_started_before_its_pipes_connect(
    run: Callable[..., Awaitable[object]], tmp_path: Path
) -> None:
    """asyncio would kill only git, and wait for the pipes that its children hold."""
    before, mark = ours(), tmp_path / "began"
    alias = f"alias.hold=!sleep 60 & touch {mark}; wait"
    running = asyncio.ensure_future(run(["-c", alias, "hold"], tmp_path))
    for _ in range(10):
        if any(not _is_supervisor(pid) for pid in ours() - before):
            break
        await asyncio.sleep(0)
    wait_until(mark.exists, "the others run")  # blocks the event loop meanwhile
    running.cancel()
    async with asyncio.timeout(60):
        await asyncio.wait((running,))
    assert running.cancelled()
    wait_until(lambda: ours() <= before, "nothing is left")


async def test_a_start_cancelled_twice_still_waits_for_the_process_to_end() -> None:
    ended: list[int] = []

    async def end(process: asyncio.subprocess.Process) -> None:
        process.kill()
        ended.append(await process.wait())

    options = {"stdin": asyncio.subprocess.PIPE, "stdout": asyncio.subprocess.PIPE}
    running = asyncio.ensure_future(start_process(("sleep", "60"), end, **options))
    for _ in range(3):
        await asyncio.sleep(0)
        running.cancel()
    async with asyncio.timeout(60):
        await asyncio.wait((running,))
    assert running.cancelled()
    assert ended == [-9]


async def test_starting_a_missing_program_fails_and_can_be_cancelled() -> None:
    async def end(_process: asyncio.subprocess.Process) -> None:
        raise AssertionError("nothing was started")

    with pytest.raises(FileNotFoundError):
        await start_process(("/nowhere/at-all",), end)
    running = asyncio.ensure_future(start_process(("/nowhere/at-all",), end))
    await asyncio.sleep(0)
    running.cancel()
    await asyncio.wait((running,))
    assert running.cancelled()
