"""A worker: takes a task, writes code, commits, pushes, and reports its milestones.

It does not look at CI. It pushes, says so, and hears from the server what became of it.
"""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

from ground import files_of, git

from shiftboss import BusWorker
from shiftboss.errors import ContractViolations
from shiftboss.worker.bus_task import BusTask

SYNC_JOB = "radicle-push"


class Worker(threading.Thread):
    """`is_hasty`: its first commit skips the sync job, and it says DONE all the same.

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
        self._shift = self._loop.create_task(self._work_on())

    def run(self) -> None:
        try:
            self._loop.run_until_complete(self._shift)
        except asyncio.CancelledError:
            pass
        except Exception as error:  # noqa: BLE001 - told by the main thread
            self.error = error
        finally:
            self._loop.close()

    def end(self) -> None:
        if self.is_alive():
            self._loop.call_soon_threadsafe(self._shift.cancel)
        self.join()

    async def _work_on(self) -> None:
        async with BusWorker(self.name, server=self._address) as worker:
            async for task in worker.tasks():
                repo = task.bead_id.removesuffix("-greeting")
                await self._work(task, repo, self._folder / "work" / repo)

    async def _work(self, task: BusTask, repo: str, clone: Path) -> None:
        self._say(f"WORKING on {repo}")
        await task.working("Writing greeting()", substate="writing_new_code")
        hastens, self._is_hasty = self._is_hasty, False
        await asyncio.to_thread(self._write, repo, clone, "Greet" + " [skip sync]" * hastens)
        passed = await self._push(task, repo, clone, 1)
        if hastens:
            await self._claim_too_early(task, repo)
            passed = await self._mend(task, repo, clone)
        if not passed:
            raise RuntimeError(f"CI of {repo} is red")
        receipt = await task.finished(repo, "1", sync_job=SYNC_JOB)
        self._say(f"DONE with {repo}: {receipt}")

    def _write(self, repo: str, clone: Path, message: str) -> None:
        git(self._folder, "clone", "--quiet", f"forge/{repo}.git", str(clone))
        text = files_of(repo, f"hello from {repo}")["src/greeting.py"]
        (clone / "src" / "greeting.py").write_text(text)
        git(clone, "commit", "--quiet", "--all", "-m", message)

    async def _push(self, task: BusTask, repo: str, clone: Path, run: int) -> bool:
        """Whether CI has passed. The local CI counts the runs of a repo; the server follows the
        commit and not the number."""
        await asyncio.to_thread(git, clone, "push", "--quiet", "origin", "main")
        sha = await asyncio.to_thread(git, clone, "rev-parse", "HEAD")
        self._say(f"PUSHED_TO_CI {repo} {sha[:10]}, run #{run}")
        await task.pushed(repo, sha, str(run))
        result = await task.ci_result()
        return bool(result["state"] == "passed")

    async def _claim_too_early(self, task: BusTask, repo: str) -> None:
        self._say(f"DONE with {repo}, or so it says")
        try:
            await task.finished(repo, "1", sync_job=SYNC_JOB)
        except ContractViolations as error:
            self.refusals.append(f"{error.detail}\n  {error.hint}")

    async def _mend(self, task: BusTask, repo: str, clone: Path) -> bool:
        """As the contract says: an empty commit, so that there is a push and the sync job runs."""
        self._say(f"FIXING_CI of {repo}")
        await task.fixing(SYNC_JOB, "it was skipped, so nothing was synced")
        words = ("--quiet", "--allow-empty", "-m", "ci: trigger radicle sync")
        await asyncio.to_thread(git, clone, "commit", *words)
        return await self._push(task, repo, clone, 2)

    def _say(self, text: str) -> None:
        # In one piece: several workers speak at the same time.
        print(f"{self.name:>6}  {text}\n", end="", flush=True)
