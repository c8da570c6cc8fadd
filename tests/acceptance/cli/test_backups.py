"""Saving a database while its server runs, bringing it back, and deleting a swarm."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from tests.client import Client
from tests.commands import shiftboss
from tests.conformance.store.test_damage import page_of, rot
from tests.running import RunningServer

pytestmark = pytest.mark.requirement("OWN-21")


@pytest.fixture
def running(tmp_path: Path) -> RunningServer:
    """On the database that commands in `tmp_path` are about."""
    return RunningServer(tmp_path / ".shiftboss" / "shiftboss.db")


def printed_command(text: str) -> list[str]:
    """The command at the end of a line, as it has to be typed."""
    found = re.search(r"(shiftboss (restore|swarm) .*)$", text, re.MULTILINE)
    assert found is not None, text
    return shlex.split(found[1])[1:]


def test_the_printed_commands_bring_a_backup_back(running: RunningServer, tmp_path: Path) -> None:
    running.start()
    client = Client(running.url)
    try:
        client.create_swarm(swarm_id="kept")
        saved = shiftboss("backup", folder=tmp_path)
        assert saved.code == 0, saved.err
        command = printed_command(saved.out)
        client.create_swarm(swarm_id="lost")
        refused = shiftboss(*command, folder=tmp_path)
        assert (refused.code, "a server is using" in refused.err) == (1, True)
        running.stop()
        restored = shiftboss(*command, "--json", folder=tmp_path)
        assert restored.code == 0, restored.err
        report = json.loads(restored.out)
        assert report["rows"]["swarms"] == 1
        assert Path(report["kept"]).is_file()
        running.start()
        listed = [swarm["swarm_id"] for swarm in client.get("/swarms").json()["swarms"]]
        assert listed == ["kept"]
    finally:
        client.close()
        running.close()


def test_a_reader_of_events_from_the_lost_future_gets_the_new_ones(
    running: RunningServer,
) -> None:
    running.start()
    client = Client(running.url)
    try:
        swarm_id = client.create_swarm()
        with client.events(swarm_id, last_event_id=500) as events:
            body = {"packet_id": 1, "packet_name": "p", "tasks_total": 3, "worktree": "/w"}
            assert client.post(f"/swarm/{swarm_id}/register", body).status_code == 200
            assert events.next().event_id == 2
    finally:
        client.close()
        running.close()


def test_damage_is_shown_with_the_commands_that_save_the_rest(
    running: RunningServer, tmp_path: Path
) -> None:
    running.start()
    client = Client(running.url)
    try:
        client.create_swarm(swarm_id="kept")
    finally:
        client.close()
        running.close()
    rot(running.database, page_of(running.database, "events"), 4096)
    (tmp_path / "below").mkdir()
    found = shiftboss("fsck", folder=tmp_path / "below")
    assert (found.code, "damage: the database" in found.out) == (1, True)
    commands = [shlex.split(line)[1:] for line in re.findall("`([^`]+)`", found.err)]
    assert [command[0] for command in commands] == ["restore", "backup", "restore"]
    saved = shiftboss(*commands[1], folder=tmp_path)
    assert (saved.code, "not all rows could be read: events" in saved.out) == (0, True), saved.err
    assert shiftboss(*commands[2], folder=tmp_path).code == 0
    assert "is sound: 1 swarm" in shiftboss("fsck", folder=tmp_path / "below").out


def test_an_agent_cannot_restore(tmp_path: Path) -> None:
    done = shiftboss("restore", "x", folder=tmp_path, SHIFTBOSS_TASK="t")
    assert done.code == 1


def test_a_swarm_is_shown_first_and_deleted_as_printed(
    running: RunningServer, tmp_path: Path
) -> None:
    running.start()
    client = Client(running.url)
    try:
        client.create_swarm(swarm_id="old")
        assert (
            client.post("/bus/add_task", {"swarm_id": "old", "bead_id": "t", "title": "T"})
        ).status_code == 200
        shown = shiftboss("swarm", "delete", "old", folder=tmp_path)
        assert shown.code == 0, shown.err
        assert "not over: 1 unfinished task" in shown.out
        refused = shiftboss("swarm", "delete", "old", "--apply", folder=tmp_path)
        assert (refused.code, "unfinished task" in refused.err) == (1, True)
        assert client.get("/swarm/old/status").status_code == 200
        deleted = shiftboss(*printed_command(shown.out), folder=tmp_path)
        assert deleted.code == 0, deleted.err
        assert client.get("/swarm/old/status").status_code == 404
    finally:
        client.close()
        running.close()


def test_damage_is_said_by_the_log_the_health_and_the_answers(
    running: RunningServer, tmp_path: Path
) -> None:
    running.start()
    client = Client(running.url)
    try:
        client.create_swarm(swarm_id="s")
        assert shiftboss("backup", folder=tmp_path).code == 0
        (tmp_path / ".shiftboss" / "shiftboss.db").unlink()
        health = client.get("/health")
        assert (health.status_code, health.json()["code"]) == (503, "store_damaged")
        refused = client.post("/swarm/create", {"swarm_id": "lost"})
        assert (refused.status_code, refused.json()["code"]) == (503, "store_damaged")
        assert "no more writes are accepted" in running.log
        running.kill()
        command = printed_command(re.findall(r"`([^`]*)`", refused.json()["hint"])[-1])
        restored = shiftboss(*command, folder=tmp_path)
        assert restored.code == 0, restored.err
        running.start()
        assert client.get("/swarm/s/status").status_code == 200
    finally:
        client.close()
        running.close()
