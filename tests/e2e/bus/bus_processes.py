"""Workers of the bus as separate processes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.acceptance.worker.workers import ScriptProcess, as_script

# Prints every task, then waits for a line on stdin that says how to continue.
OBEDIENT = """
    import logging, sys
    from shiftboss import BusWorker

    logging.basicConfig(stream=sys.stdout, level=logging.WARNING, format="log: %(message)s")
    async with BusWorker({name!r}, heartbeat_seconds={heartbeat_seconds}) as worker:
        async for task in worker.tasks():
            print(task.bead_id, task.epoch, flush=True)
            if (await asyncio.to_thread(sys.stdin.readline)).strip() != "done":
                break
            await task.done()
            print("done", flush=True)
"""


class WorkerProcess(ScriptProcess):
    def tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())
        self._process.stdin.flush()

    def is_running(self) -> bool:
        return self._process.poll() is None


@contextmanager
def worker_process(script: str, url: str) -> Iterator[WorkerProcess]:
    """The process is gone at the end of the `with`."""
    process = WorkerProcess(as_script(script), url)
    try:
        yield process
    finally:
        if process.is_running():
            process.kill()
        else:
            process.end()


def obedient(name: str, heartbeat_seconds: float = 20) -> str:
    return OBEDIENT.format(name=name, heartbeat_seconds=heartbeat_seconds)
