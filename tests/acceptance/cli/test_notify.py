"""Notifications of a real server: killed while it sends, its commands, its reload."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx2
import psutil
import pytest

from tests.commands import Done, shiftboss
from tests.receiver import SECRET, Receiver
from tests.running import RunningServer
from tests.waiting import wait_until

pytestmark = pytest.mark.requirement("OWN-20")

HIDDEN_PATH = "T000-B000-hidden"


class Notified:
    """A server whose notifications go to `receiver`."""

    def __init__(self, server: RunningServer, receiver: Receiver, file: Path) -> None:
        self.server = server
        self.receiver = receiver
        self.file = file

    def write(self, text: str) -> None:
        self.file.touch(mode=0o600)
        self.file.write_text(text, encoding="utf-8")

    def run(self, *arguments: str) -> Done:
        folder = self.server.state_folder
        token = (folder / "operator-token").read_text(encoding="utf-8").strip()
        return shiftboss(
            *arguments,
            url=self.server.url,
            folder=folder,
            SHIFTBOSS_OPERATOR_TOKEN=token,
            COLUMNS="300",
        )

    def listed(self) -> list[dict[str, object]]:
        found = json.loads(self.run("notify", "list", "--json").out)
        assert isinstance(found["notifications"], list)
        return found["notifications"]


@pytest.fixture
def notified(
    sqlite_path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Notified]:
    file = tmp_path / "notify.yaml"
    secret = tmp_path / "webhook-secret"
    secret.touch(mode=0o600)
    secret.write_text(SECRET, encoding="utf-8")
    monkeypatch.setenv("SHIFTBOSS_NOTIFY", str(file))
    server = RunningServer(sqlite_path)
    with Receiver() as receiver:
        it = Notified(server, receiver, file)
        it.write(
            "channels: {phone: {kind: webhook, secret_file: webhook-secret, "
            f"url: '{receiver.url}/{HIDDEN_PATH}'}}}}\n"
        )
        try:
            server.start()
            yield it
        finally:
            server.close()


def ask(server: RunningServer) -> None:
    def post(path: str, body: dict[str, object]) -> None:
        httpx2.post(f"{server.url}{path}", json=body, trust_env=False).raise_for_status()

    post("/bus/add_task", {"bead_id": "t", "title": "T"})
    post("/bus/register_worker", {"name": "w"})
    post("/bus/submit_task", {"bead_id": "t"})
    post("/bus/poll_task", {"name": "w", "timeout_ms": 0})
    post("/bus/ack_task", {"name": "w", "bead_id": "t"})
    message = {"type": "blocked", "worker_id": "w", "timestamp": "2026-01-05T10:00:00Z"}
    post("/messages", message | {"payload": {"question": "which?"}})


def test_a_server_that_is_killed_while_it_sends_sends_it_again(notified: Notified) -> None:
    notified.receiver.reactions = ["hang"]
    ask(notified.server)
    wait_until(lambda: notified.receiver.received, "it is under way")
    notified.server.kill()
    notified.server.start()
    wait_until(lambda: len(notified.receiver.received) == 2, "it came again")
    first, again = notified.receiver.received
    assert first.message_id == again.message_id
    assert first.is_signed()
    assert again.is_signed()
    assert again.document["data"]["link"] == f"{notified.server.url}/#/s/default/task/t"
    wait_until(lambda: [each["state"] for each in notified.listed()] == ["sent"], "it is recorded")


def test_commands_show_the_channels_and_try_them_and_no_secret(notified: Notified) -> None:
    channels = notified.run("notify", "channels")
    assert "phone" in channels.out
    assert "127.0.0.1" in channels.out
    assert "phone: taken" in notified.run("notify", "test", "phone").out
    notified.receiver.reactions = [500]
    failed = notified.run("notify", "test")
    assert failed.code == 1
    assert "phone: not taken: HTTP 500" in failed.out
    assert "there is no channel phon" in notified.run("notify", "test", "phon").err
    assert "there are no notifications" in notified.run("notify", "list").out
    assert notified.run("notify", "retry", "7").code == 1

    # A mistake in the file: the old channels stay, and everybody is told.
    notified.write("channels: {phone: {kind: pigeon}}\n")
    os.kill(notified.server.pid, signal.SIGHUP)
    wait_until(lambda: "notifications stays as it was" in notified.server.log, "it was read")
    for command in (("notify", "channels"), ("doctor",), ("status",)):
        assert "notify.yaml:1: channels.phone.kind" in notified.run(*command).out
    assert "phone: taken" in notified.run("notify", "test").out
    outputs = [channels.out, failed.out, failed.err, notified.server.log]
    assert not [each for each in outputs if HIDDEN_PATH in each or SECRET in each]


def test_a_command_gets_a_test_and_is_killed_with_its_children_at_its_timeout(
    notified: Notified,
) -> None:
    seen, child = notified.file.parent / "seen", notified.file.parent / "child"
    quick = f'printf %s "$SHIFTBOSS_TITLE" > {seen}'
    slow = f"sleep 600 & echo $! > {child}; wait"
    commands = {
        name: {"kind": "command", "command": ["sh", "-c", script], "timeout": seconds}
        for name, script, seconds in (("quick", quick, "60s"), ("slow", slow, "1s"))
    }
    notified.write(json.dumps({"channels": commands}))
    os.kill(notified.server.pid, signal.SIGHUP)
    wait_until(lambda: "channels: quick, slow" in notified.server.log, "it was read")

    done = notified.run("notify", "test", "quick")
    assert "quick: taken" in done.out
    assert done.code == 0
    assert "Shiftboss: test" in seen.read_text(encoding="utf-8")

    assert "slow: not taken: sh did not end within 1 s" in notified.run("notify", "test").out
    # On a busy machine the second may be over before there is a child.
    pid = child.read_text(encoding="utf-8") if child.exists() else ""
    if pid:
        wait_until(lambda: has_ended(int(pid)), "the child of the command has ended")


def has_ended(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def test_settings_that_others_can_read_fail_the_test_and_are_found_once(
    notified: Notified,
) -> None:
    notified.file.chmod(0o644)
    notified.server.stop()
    notified.server.start()
    command = f"chmod 600 {notified.file}"
    for arguments in (("notify", "test"), ("notify", "test", "phone")):
        done = notified.run(*arguments)
        assert done.code == 1
        assert command in done.err
    found = json.loads(notified.run("doctor", "--json").out)["findings"]
    (finding,) = (each for each in found if each["check"] == "notifications")
    assert finding["level"] == "problem"
    assert command in finding["message"]


def test_a_secret_that_others_can_read_names_the_command_that_helps(notified: Notified) -> None:
    secret = notified.file.parent / "webhook-secret"
    secret.chmod(0o644)
    done = notified.run("notify", "test")
    assert done.code == 1
    assert "phone: not taken: Other users can read the secret of the webhook" in done.out
    assert f"`chmod 600 {secret}` helps" in done.out


def test_a_secret_that_is_missing_is_a_problem_of_the_doctor(notified: Notified) -> None:
    (notified.file.parent / "webhook-secret").unlink()
    assert "the channel phone (webhook) cannot be used" in notified.run("doctor").out
    assert notified.run("notify", "test").code == 1
    assert notified.receiver.received == []
