"""Workers whose token is replaced while they run."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from shiftboss import BusWorker
from tests.acceptance.bus.bus import submitted, task
from tests.acceptance.swarms.packets import SWARM
from tests.acceptance.worker.workers import all_delivered, worker_at
from tests.client import Client
from tests.commands import shiftboss
from tests.running import RunningServer
from tests.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("SW-13")]

OLD, NEW = "the-old-token", "the-new-token"


class Rotation:
    """A server, and a file with its token for the workers."""

    def __init__(self, database: str, file: Path) -> None:
        self.server = RunningServer(database, token=OLD).start()
        self.url = self.server.url
        self.file = file
        self.write(OLD)

    def write(self, token: str) -> None:
        self.file.touch(mode=0o600)
        self.file.write_text(f"{token}\n")

    def replace_on_server(self) -> Client:
        """Restart the server with the new token; a client that has it."""
        self.server.stop()
        self.server.change(token=NEW)
        self.server.start()
        return Client(self.url, NEW)


@pytest.fixture
def rotation(sqlite_path: str, tmp_path: Path) -> Iterator[Rotation]:
    rotation = Rotation(sqlite_path, tmp_path / "token")
    yield rotation
    rotation.server.close()


async def test_a_bus_worker_waits_for_the_new_token_and_says_so_once(
    rotation: Rotation, caplog: pytest.LogCaptureFixture
) -> None:
    async with BusWorker("w", server=rotation.url, token_file=rotation.file) as worker:
        before = Client(rotation.url, OLD)
        submitted(before, "a")
        held = await anext(worker.tasks())
        client = rotation.replace_on_server()
        finishing = asyncio.create_task(held.done())
        await eventually(lambda: _told(caplog), "it says what it waits for")
        rotation.write(NEW)
        await finishing
    assert task(client, "a")["status"] == "done"
    (told,) = _told(caplog)
    assert str(rotation.file) in told
    assert OLD not in told
    before.close()
    client.close()


async def test_a_bus_worker_may_start_before_its_token_is_valid(rotation: Rotation) -> None:
    rotation.write("not-yet-valid")
    client = Client(rotation.url, OLD)
    submitted(client, "a")
    async with BusWorker("w", server=rotation.url, token_file=rotation.file) as worker:
        polling = asyncio.create_task(anext(worker.tasks()))
        rotation.write(OLD)
        await (await polling).done()
    assert task(client, "a")["status"] == "done"
    client.close()


async def test_reports_of_a_packet_wait_for_the_new_token(
    rotation: Rotation, tmp_path: Path
) -> None:
    before = Client(rotation.url, OLD)
    before.create_swarm(swarm_id=SWARM)
    before.close()
    async with worker_at(rotation.url, tmp_path, token_file=rotation.file) as worker:
        await worker.register()
        client = rotation.replace_on_server()
        answer = await worker.report_progress("t", "Task", "completed")
        assert answer["queued"] is True
        rotation.write(NEW)
        await eventually(lambda: all_delivered(tmp_path), "it is delivered")
    assert client.status(SWARM)["workers"][0]["tasks_completed"] == 1
    client.close()


def test_a_command_tells_a_wrong_token_from_a_missing_one(rotation: Rotation) -> None:
    missing = shiftboss("swarm", "list", url=rotation.url)
    assert (missing.code, missing.out) == (1, "")
    assert "no token was sent: set SHIFTBOSS_TOKEN, or give --token-file" in missing.err
    rotation.write("wrong")
    file = str(rotation.file)
    for wrong, source in (
        (shiftboss("swarm", "list", "--token-file", file, url=rotation.url), file),
        (shiftboss("swarm", "list", url=rotation.url, SHIFTBOSS_TOKEN="wrong"), "SHIFTBOSS_TOKEN"),
        (shiftboss("swarm", "list", url=rotation.url, SHIFTBOSS_TOKEN_FILE=file), file),
    ):
        assert (wrong.code, wrong.out) == (1, "")
        assert f"the token in {source} was sent" in wrong.err
        assert "no token was sent" not in wrong.err


def _told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        record.getMessage()
        for record in caplog.records
        if record.levelno >= logging.WARNING and "waiting for" in record.getMessage()
    ]
