"""A worker: takes a task, writes code, commits, pushes, and reports its milestones.

It does not check CI. It reports the push, and the server reports the result.
"""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

from repos import files_of, git
from shiftboss import BusWorker
from shiftboss.errors import ContractViolations
from shiftboss.worker.bus_task import BusTask

SYNC_JOB = "radicle-push"


class Worker(threading.Thread):
    """With `is_hasty`, its first commit skips the sync job, and it reports DONE anyway.

    `refusals` are the server's answers to that.
    """

    def __init__(self, name: str, address: str, folder: Path, *, is_hasty: bool = False) -> None:
        super().__init__(name=name, daemon=True)
        self.refusals: list[str] = []
        self.error: Exception | None = None
        self._address = address
        self._folder = folder
        self._is_hasty = is_hasty
        self._loop = asyncio.new_event_loop()
        self._task = self._loop.create_task(self._run())

    def run(self) -> None:
        try:
            self._loop.run_until_complete(self._task)
        except asyncio.CancelledError:
            pass
        except Exception as error:  # noqa: BLE001 - reported by the main thread
            self.error = error
        finally:
            self._loop.close()

    def stop(self) -> None:
        if self.is_alive():
            self._loop.call_soon_threadsafe(self._task.cancel)
        self.join()

    async def _run(self) -> None:
        async with BusWorker(self.name, server=self._address) as worker:
            async for task in worker.tasks():
                repo = task.bead_id.removesuffix("-greeting")
                await self._work(task, repo, self._folder / "work" / repo)

    async def _work(self, task: BusTask, repo: str, clone: Path) -> None:
        self._print(f"WORKING on {repo}")
        await task.working("Writing greeting()", substate="writing_new_code")
        skips_sync, self._is_hasty = self._is_hasty, False
        await asyncio.to_thread(self._write, repo, clone, "Greet" + " [skip sync]" * skips_sync)
        ci = await self._push(task, repo, clone, 1)
        if skips_sync:
            await self._claim_too_early(task, repo, ci["run_id"])
            ci = await self._fix(task, repo, clone)
        if ci["state"] != "passed":
            raise RuntimeError(f"CI of {repo} is red")
        receipt = await task.finished(repo, ci["run_id"], sync_job=SYNC_JOB)
        self._print(f"DONE with {repo}: {receipt}")

    def _write(self, repo: str, clone: Path, message: str) -> None:
        git(self._folder, "clone", "--quiet", f"forge/{repo}.git", str(clone))
        text = files_of(repo, f"hello from {repo}")["src/greeting.py"]
        (clone / "src" / "greeting.py").write_text(text)
        git(clone, "commit", "--quiet", "--all", "-m", message)

    async def _push(self, task: BusTask, repo: str, clone: Path, run: int) -> dict[str, Any]:
        """Push; returns the result of CI. `run` is the expected number of the CI run; the server
        goes by the commit, and its answer has the real one."""
        await asyncio.to_thread(git, clone, "push", "--quiet", "origin", "main")
        sha = await asyncio.to_thread(git, clone, "rev-parse", "HEAD")
        self._print(f"PUSHED_TO_CI {repo} {sha[:10]}, run #{run}")
        await task.pushed(repo, sha, str(run))
        return await task.ci_result()

    async def _claim_too_early(self, task: BusTask, repo: str, run_id: str) -> None:
        self._print(f"DONE with {repo} (not true)")
        try:
            await task.finished(repo, run_id, sync_job=SYNC_JOB)
        except ContractViolations as error:
            self.refusals.append(f"{error.detail}\n  {error.hint}")

    async def _fix(self, task: BusTask, repo: str, clone: Path) -> dict[str, Any]:
        """The remedy of the contract: push an empty commit, so that the sync job runs."""
        self._print(f"FIXING_CI of {repo}")
        await task.fixing(SYNC_JOB, "it was skipped, so nothing was synced")
        options = ("--quiet", "--allow-empty", "-m", "ci: trigger radicle sync")
        await asyncio.to_thread(git, clone, "commit", *options)
        return await self._push(task, repo, clone, 2)

    def _print(self, text: str) -> None:
        # One write per line: several workers print at the same time.
        print(f"{self.name:>6}  {text}\n", end="", flush=True)
