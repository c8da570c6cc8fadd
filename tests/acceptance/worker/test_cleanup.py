"""Checkpoints are removed when the whole swarm is complete, and not before."""

from __future__ import annotations

from pathlib import Path

import pytest

from shiftboss.worker.checkpoints import remove_checkpoints
from shiftboss.worker.swarm_worker import SwarmWorker
from tests.acceptance.swarms.packets import SWARM
from tests.acceptance.worker.workers import (
    checkpoint,
    checkpoint_file,
    outbox_folder,
    run_script,
    worker_at,
)
from tests.client import Client
from tests.running import RunningServer
from tests.waiting import eventually, wait_until

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("SW-11")]


@pytest.fixture
def swarm(client: Client) -> str:
    return client.create_swarm(swarm_id=SWARM, workers_expected=2)


def first_of(server: RunningServer, worktree: Path) -> SwarmWorker:
    return worker_at(server.url, worktree)


def second_of(server: RunningServer, worktree: Path) -> SwarmWorker:
    return worker_at(server.url, worktree, packet_id=2, packet_name="page")


async def finish(worker: SwarmWorker) -> None:
    async with worker:
        await worker.register()
        await worker.report_complete("def5678901", True, True)


@pytest.mark.usefixtures("swarm")
async def test_the_first_checkpoint_stays_until_the_last_worker_completes(
    server: RunningServer, tmp_path: Path
) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    await finish(first_of(server, one))
    assert checkpoint(one)["event"] == "complete"
    async with second_of(server, two) as second:
        await second.register()
        await second.report_progress("task-1", "One", "completed")
        assert checkpoint_file(one).exists()
        await second.report_complete("def5678902", True, True)
    assert not checkpoint_file(one).exists()
    assert not checkpoint_file(two, "packet-2-page").exists()
    assert not outbox_folder(one).exists()
    assert not outbox_folder(two, "packet-2-page").exists()


@pytest.mark.usefixtures("swarm")
async def test_a_failed_worker_keeps_all_checkpoints(server: RunningServer, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    await finish(first_of(server, one))
    async with second_of(server, two) as second:
        await second.register()
        await second.report_error("task-1", "test_failure", "red", False)
        assert await second.cleanup() is False
    assert checkpoint(one)["event"] == "complete"
    assert checkpoint(two, "packet-2-page")["event"] == "error"


@pytest.mark.usefixtures("swarm")
async def test_a_checkpoint_that_does_not_record_the_completion_stays(
    server: RunningServer, tmp_path: Path
) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    await finish(first_of(server, one))
    other = checkpoint_file(one).read_text().replace('"complete"', '"progress"')
    checkpoint_file(one).write_text(other)
    unrelated = checkpoint_file(one, "packet-1-backend")
    unrelated.write_text(other)
    await finish(second_of(server, two))
    assert checkpoint_file(one).read_text() == other
    assert unrelated.read_text() == other
    assert not checkpoint_file(two, "packet-2-page").exists()


@pytest.mark.usefixtures("swarm")
async def test_clean_up_follows_no_link_out_of_the_folder(
    server: RunningServer, tmp_path: Path
) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    await finish(first_of(server, one))
    elsewhere = tmp_path / "elsewhere.json"
    checkpoint_file(one).rename(elsewhere)
    checkpoint_file(one).symlink_to(elsewhere)
    await finish(second_of(server, two))
    assert elsewhere.exists()
    assert checkpoint_file(one).is_symlink()


@pytest.mark.usefixtures("swarm")
async def test_clean_up_follows_no_linked_folder_out_of_the_worktree(
    server: RunningServer, tmp_path: Path
) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    await finish(first_of(server, one))
    elsewhere = tmp_path / "elsewhere"
    checkpoint_file(one).parent.rename(elsewhere)
    checkpoint_file(one).parent.symlink_to(elsewhere)
    await finish(second_of(server, two))
    assert (elsewhere / "packet-1-backend-api.json").exists()


@pytest.mark.usefixtures("swarm")
async def test_a_worker_on_another_machine_cleans_up_on_request(
    server: RunningServer, client: Client, tmp_path: Path
) -> None:
    one, moved = tmp_path / "one", tmp_path / "moved"
    await finish(first_of(server, one))
    # Out of reach for the second worker, as if it were on another machine.
    one.rename(moved)
    await finish(second_of(server, tmp_path / "two"))
    assert checkpoint(moved)["event"] == "complete"
    moved.rename(one)
    async with first_of(server, one) as first:
        assert await first.cleanup() is True
    assert not checkpoint_file(one).exists()
    assert client.status(SWARM)["status"] == "complete"


@pytest.mark.usefixtures("swarm")
async def test_resuming_a_packet_of_a_complete_swarm_cleans_up(
    server: RunningServer, client: Client, tmp_path: Path
) -> None:
    one = tmp_path / "one"
    await finish(first_of(server, one))
    await finish(second_of(server, tmp_path / "two"))
    async with first_of(server, one) as first:
        await first.report_error("task-1", "network_error", "too late to matter", True)
        assert checkpoint(one)["event"] == "error"
        await first.resume()
    assert not checkpoint_file(one).exists()
    assert client.status(SWARM)["status"] == "complete"


@pytest.mark.usefixtures("swarm")
async def test_a_completion_delivered_later_cleans_up_too(
    server: RunningServer, tmp_path: Path
) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    await finish(first_of(server, one))
    async with second_of(server, two) as second:
        await second.register()
        server.kill()
        await second.report_complete("def5678902", True, True)
        assert checkpoint(two, "packet-2-page")["event"] == "complete"
        server.start()
        left = [checkpoint_file(one), checkpoint_file(two, "packet-2-page")]
        await eventually(
            lambda: not any(file.exists() for file in left),
            "both checkpoints are removed",
            seconds=30,
        )


@pytest.mark.usefixtures("couriers")
def test_a_courier_cleans_up_too(server: RunningServer, client: Client, tmp_path: Path) -> None:
    client.create_swarm(swarm_id=SWARM)
    server.kill()
    script = f"""
import asyncio
from spellbook.coordination import SwarmWorker

async def main():
    worker = SwarmWorker("{SWARM}", 1, "backend-api", "{tmp_path}", 10)
    await worker.register()
    await worker.report_complete("def5678901", True, True)

asyncio.run(main())
"""
    run_script(script, server.url)
    assert checkpoint(tmp_path)["event"] == "complete"
    server.start()
    wait_until(lambda: not checkpoint_file(tmp_path).exists(), "it is removed", seconds=30)
    assert client.status(SWARM)["status"] == "complete"


@pytest.mark.usefixtures("swarm")
async def test_clean_up_needs_only_the_status_of_the_swarm(
    server: RunningServer, client: Client, tmp_path: Path
) -> None:
    one, away = tmp_path / "one", tmp_path / "away"
    await finish(first_of(server, one))
    assert remove_checkpoints(client.status(SWARM)) == []
    one.rename(away)
    await finish(second_of(server, tmp_path / "two"))
    away.rename(one)
    assert remove_checkpoints(client.status(SWARM)) == [checkpoint_file(one)]
    assert remove_checkpoints(client.status(SWARM)) == []
