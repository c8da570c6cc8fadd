"""Damaged worktrees and outboxes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from shiftboss.worker.report_journal import WorktreeUnusable
from tests.acceptance.swarms.packets import SWARM, kinds
from tests.acceptance.worker.workers import (
    all_delivered,
    outbox_folder,
    run_script,
    worker_at,
)
from tests.client import Client
from tests.running import RunningServer
from tests.waiting import wait_until

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("SW-04")]


def a_file(path: Path) -> None:
    path.write_text("in the way")


def a_folder(path: Path) -> None:
    path.mkdir()
    (path / "file").write_text("in it")


def a_loop(path: Path) -> None:
    path.symlink_to(path.name)


def a_link_to_nothing(path: Path) -> None:
    path.symlink_to("nothing")


SEVERAL_WORKERS = """
import asyncio, shutil
from pathlib import Path
from shiftboss import SwarmWorker
from shiftboss.errors import ShiftbossError

async def main():
    for number, worktree in enumerate({worktrees}, 1):
        worker = SwarmWorker("{swarm}", number, "backend-api", worktree, 10)
        try:
            print(await worker.register())
        except ShiftbossError as error:
            print(error.code)

asyncio.run(main())
{afterwards}
"""


@pytest.mark.usefixtures("couriers")
@pytest.mark.parametrize("put", [a_file, a_loop])
def test_an_invalid_worktree_does_not_stop_the_couriers_of_other_workers(
    put: Callable[[Path], None], server: RunningServer, client: Client, tmp_path: Path
) -> None:
    client.create_swarm(swarm_id=SWARM)
    server.kill()
    put(tmp_path / "bad")
    script = SEVERAL_WORKERS.format(
        swarm=SWARM, worktrees=[str(tmp_path / "bad"), str(tmp_path)], afterwards=""
    )
    output = run_script(script, server.url)
    assert output.splitlines()[0] == "worktree_unusable"
    assert "'queued': True" in output
    server.start()
    wait_until(lambda: client.status(SWARM)["workers_registered"] == 1, "delivered", seconds=30)


@pytest.mark.usefixtures("couriers")
@pytest.mark.parametrize("turn_bad", ["touch()", "symlink_to('.spellbook')"])
def test_a_worktree_that_becomes_invalid_does_not_stop_the_couriers_of_other_workers(
    turn_bad: str, server: RunningServer, client: Client, tmp_path: Path
) -> None:
    client.create_swarm(swarm_id=SWARM)
    server.kill()
    bad = tmp_path / "bad"
    spellbook = f"Path({str(bad / '.spellbook')!r})"
    script = SEVERAL_WORKERS.format(
        swarm=SWARM,
        worktrees=[str(bad), str(tmp_path)],
        afterwards=f"shutil.rmtree({spellbook})\n{spellbook}.{turn_bad}",
    )
    assert run_script(script, server.url).count("'queued': True") == 2
    server.start()
    wait_until(lambda: client.status(SWARM)["workers_registered"] == 1, "delivered", seconds=30)


@pytest.mark.parametrize("put", [a_file, a_folder, a_loop, a_link_to_nothing])
async def test_files_that_are_not_reports_are_set_aside_and_delivery_continues(
    put: Callable[[Path], None], server: RunningServer, client: Client, tmp_path: Path
) -> None:
    client.create_swarm(swarm_id=SWARM)
    outbox_folder(tmp_path).mkdir(parents=True)
    put(outbox_folder(tmp_path) / "000000000001.json")
    async with worker_at(server.url, tmp_path) as worker:
        assert (await worker.register())["registered"] is True
        assert (await worker.report_progress("task-1", "One", "completed"))["acknowledged"] is True
    assert all_delivered(tmp_path)
    assert len(list((outbox_folder(tmp_path) / "rejected").iterdir())) == 1
    assert kinds(client) == ["swarm_created", "worker_registered", "progress_update"]


@pytest.mark.parametrize(
    ("name", "put"),
    [("delivering.lock", a_folder), ("delivering.lock", a_loop), ("rejected", a_file)],
)
async def test_an_undeliverable_outbox_keeps_the_report_without_blocking_the_caller(
    name: str, put: Callable[[Path], None], server: RunningServer, client: Client, tmp_path: Path
) -> None:
    client.create_swarm(swarm_id=SWARM)
    outbox = outbox_folder(tmp_path)
    outbox.mkdir(parents=True)
    put(outbox / name)
    a_file(outbox / "000000000001.json")
    async with worker_at(server.url, tmp_path) as worker:
        answer = await worker.register()
    assert answer["queued"] is True
    assert [file.name for file in sorted(outbox.glob("*.json"))] == [
        "000000000001.json",
        "000000000002.json",
    ]


@pytest.mark.parametrize("put", [a_file, a_loop])
async def test_an_invalid_worktree_is_refused_by_name(
    put: Callable[[Path], None], server: RunningServer, client: Client, tmp_path: Path
) -> None:
    client.create_swarm(swarm_id=SWARM)
    put(tmp_path / "bad")
    async with worker_at(server.url, tmp_path / "bad") as worker:
        with pytest.raises(WorktreeUnusable) as refused:
            await worker.resume()
    assert refused.value.field == "worktree"
    assert kinds(client) == ["swarm_created"]
