"""The scratch folder of a replay is removed, and the loop goes on meanwhile."""

from __future__ import annotations

import asyncio
import shutil
import threading
from pathlib import Path

import pytest

from shiftboss.redteam.scratch import scratch_folder

pytestmark = pytest.mark.requirement("OWN-17")


def test_a_folder_is_removed_while_the_loop_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cancelled in the middle, the removal still comes to its end."""
    removing, go_on = threading.Event(), threading.Event()
    remove = shutil.rmtree

    def slow_remove(folder: Path, ignore_errors: bool) -> None:
        removing.set()
        assert go_on.wait(10), "the loop is blocked"
        remove(folder, ignore_errors=ignore_errors)

    monkeypatch.setattr(shutil, "rmtree", slow_remove)
    made: list[Path] = []

    async def use() -> None:
        async with scratch_folder() as folder:
            made.append(folder)
            (folder / "file").touch()

    async def cancel_in_the_middle() -> None:
        using = asyncio.create_task(use())
        await asyncio.to_thread(removing.wait, 10)
        using.cancel()
        await asyncio.sleep(0)
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await using
        assert not made[0].exists()

    asyncio.run(cancel_in_the_middle())
