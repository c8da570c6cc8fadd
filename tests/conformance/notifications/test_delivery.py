"""From the outbox to a receiver, at least once: on both stores, with a real HTTP server."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from shiftboss.coordinator.bus.questions import put
from shiftboss.coordinator.coordinator import Coordinator
from shiftboss.coordinator.duties import notifier
from shiftboss.notifications.channel import OutgoingMessage
from shiftboss.notifications.settings_source import NOTIFY_VARIABLE, SettingsSource
from shiftboss.protocol.notifications.calls import (
    ListChannelsRequest,
    ListNotificationsRequest,
    NotificationView,
    RetryNotificationRequest,
    SendTestRequest,
)
from shiftboss.protocol.packets import CompleteRequest, RegisterRequest
from shiftboss.protocol.questions import AnswerQuestionRequest
from shiftboss.protocol.swarms import CreateSwarmRequest
from shiftboss.rules.notifications import schedule
from shiftboss.rules.tasks.tasks import Question
from shiftboss.store.open_store import store_at
from shiftboss.store.port import Transaction
from tests.receiver import SECRET, Receiver
from tests.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("OWN-20")]

SWARM = "login"


class Setup:
    """A database, and a settings file with one signed webhook."""

    def __init__(self, address: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.address = address
        self.folder = folder
        self.file = folder / "notify.yaml"
        monkeypatch.setenv(NOTIFY_VARIABLE, str(self.file))
        monkeypatch.setenv("HOOK_SECRET", SECRET)
        monkeypatch.setattr(schedule, "FIRST_PAUSE_SECONDS", 0.02)

    def write(self, text: str) -> None:
        self.file.touch(mode=0o600)
        self.file.write_text(text, encoding="utf-8")

    def send_to(self, receiver: Receiver, more: str = "", channel: str = "") -> None:
        self.write(
            "channels:\n  hook: {kind: webhook, secret_variable: HOOK_SECRET, timeout: 1, "
            f"url: '{receiver.url}', per_minute: 600{channel}}}\n{more}"
        )

    @asynccontextmanager
    async def server(self, *, notifies: bool = True) -> AsyncIterator[Coordinator]:
        source = SettingsSource(self.folder) if notifies else None
        coordinator = Coordinator(store_at(self.address), verifies=False, notify=source)
        if not notifies:
            coordinator.on_leader.duties.clear()
        await coordinator.start()
        try:
            yield coordinator
        finally:
            await coordinator.stop()


@pytest.fixture
def setup(store_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Setup:
    return Setup(store_address, tmp_path, monkeypatch)


async def ask(coordinator: Coordinator, count: int = 1) -> None:
    if await coordinator.store.read(lambda tx: tx.swarm(SWARM)) is None:
        await coordinator.swarms.create_swarm(CreateSwarmRequest(swarm_id=SWARM))

    def use_case(tx: Transaction) -> None:
        tx.take_swarm(SWARM)
        for _ in range(count):
            put(tx, Question(SWARM, 0, "t", 1, "w", "lead", "which?", coordinator.clock()))

    await coordinator.store.write(use_case, SWARM)


async def listed(coordinator: Coordinator) -> list[NotificationView]:
    request = ListNotificationsRequest()
    return (await coordinator.notifications.list_notifications(request)).notifications


async def until_state(coordinator: Coordinator, state: str, count: int = 1) -> None:
    states: list[str] = []
    for _ in range(1000):
        states = [each.state for each in await listed(coordinator)]
        if states.count(state) == count:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"not {count} {state}: {states}")


async def test_a_question_is_sent_once_signed_and_with_its_command(setup: Setup) -> None:
    with Receiver() as receiver:
        setup.send_to(receiver)
        async with setup.server() as coordinator:
            await ask(coordinator)
            await until_state(coordinator, "sent")
            (view,) = await listed(coordinator)
        (received,) = receiver.received
    assert received.is_signed()
    data = received.document["data"]
    assert received.document["type"] == "shiftboss.question"
    assert data["command"] == f"shiftboss questions answer 1 'your answer' --swarm {SWARM}"
    assert data["link"].endswith(f"/#/s/{SWARM}/task/t")
    assert (view.attempts, view.message_id) == (1, received.message_id)
    assert coordinator.notifications.notifier.attempts == {"sent": 1, "retried": 0, "failed": 0}


async def test_a_receiver_that_fails_hangs_redirects_or_never_ends(setup: Setup) -> None:
    with Receiver(500, 503, "hang", "redirect", "endless") as receiver:
        setup.send_to(receiver)
        async with setup.server() as coordinator:
            await ask(coordinator)
            await until_state(coordinator, "sent")
            (view,) = await listed(coordinator)
        assert len(set(receiver.ids)) == 1, "every repeat has the same id"
        assert len(receiver.received) == 5
        assert {each.path for each in receiver.received} == {"/hook"}, "no redirect is followed"
    assert view.attempts == 5


async def test_a_channel_that_hangs_holds_up_no_other(setup: Setup) -> None:
    with Receiver("hang") as hanging, Receiver() as quick:
        common = "kind: webhook, secret_variable: HOOK_SECRET, timeout: 60"
        setup.write(
            f"channels:\n  a: {{{common}, url: '{hanging.url}'}}\n"
            f"  b: {{{common}, url: '{quick.url}'}}\n"
        )
        async with setup.server() as coordinator:
            await ask(coordinator)
            await eventually(lambda: quick.received, "the other channel has it")
            await eventually(lambda: hanging.received, "the first one hangs")
            hanging.release()


async def test_what_was_committed_before_a_crash_is_sent_by_the_next_server(setup: Setup) -> None:
    with Receiver() as receiver:
        setup.send_to(receiver)
        async with setup.server(notifies=False) as coordinator:
            await ask(coordinator)
        assert receiver.received == []
        async with setup.server() as coordinator:
            await until_state(coordinator, "sent")
        assert len(receiver.received) == 1


async def test_a_message_under_way_in_a_crash_comes_again_with_the_same_id(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifier, "FLUSH_SECONDS", 0.0)
    with Receiver("hang") as receiver:
        setup.send_to(receiver)
        async with setup.server() as coordinator:
            await ask(coordinator)
            await eventually(lambda: receiver.received, "it is under way")
        async with setup.server() as coordinator:
            await until_state(coordinator, "sent")
        assert len(set(receiver.ids)) == 1
        assert len(receiver.received) >= 2


async def test_another_leader_goes_on(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup = Setup(postgres_url, tmp_path, monkeypatch)
    with Receiver() as receiver:
        setup.send_to(receiver)
        async with setup.server() as first:
            await ask(first)
            await until_state(first, "sent")
            async with setup.server() as second:
                await ask(second)
                await until_state(second, "sent", 2)
                await first.stop()
                await ask(second)
                await until_state(second, "sent", 3)
        assert len(set(receiver.ids)) == len(receiver.ids) == 3


async def test_after_the_last_attempt_it_has_failed_and_can_be_retried(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shiftboss.coordinator.notifications.outbox.ATTEMPTS_MAX", 2)
    with Receiver(500, 404) as receiver:
        setup.send_to(receiver)
        async with setup.server() as coordinator:
            await ask(coordinator)
            await until_state(coordinator, "failed")
            (view,) = await listed(coordinator)
            assert (view.error, view.attempts) == ("HTTP 404", 2)
            warning = await coordinator.notifications.warning()
            assert warning is not None
            assert warning.detail == "1 notification could not be sent by hook"
            answer = await coordinator.notifications.retry_notification(
                RetryNotificationRequest(number=view.number)
            )
            assert answer.retried == 1
            await until_state(coordinator, "sent")
            assert await coordinator.notifications.warning() is None


async def test_fifty_at_once_are_a_few_messages(setup: Setup) -> None:
    with Receiver() as receiver:
        setup.send_to(receiver)
        async with setup.server() as coordinator:
            await ask(coordinator, count=50)
            await until_state(coordinator, "sent", 50)
        (received,) = receiver.received
    assert received.document["type"] == "shiftboss.digest"
    assert received.document["data"]["count"] == 50


async def test_the_quiet_time_ends_with_a_digest_without_what_was_answered(
    sqlite_path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup = Setup(sqlite_path, tmp_path, monkeypatch)
    now_ms = 1_800_000_000_000  # 08:00 UTC
    quiet = "quiet: {start: '07:00', end: '09:00', zone: UTC}\n"
    with Receiver() as receiver:
        setup.send_to(receiver, quiet)
        coordinator = Coordinator(
            store_at(sqlite_path),
            clock=lambda: now_ms,
            verifies=False,
            notify=SettingsSource(tmp_path),
        )
        await coordinator.start()
        try:
            await ask(coordinator, count=3)
            await until_state(coordinator, "pending", 3)
            answer = AnswerQuestionRequest(swarm_id=SWARM, question_id=2, answer="this")
            await coordinator.bus.answer_question(answer)
            assert receiver.received == []
            now_ms += 3_600_000
            coordinator.notifications.notifier.wake()
            await until_state(coordinator, "sent", 2)
            await until_state(coordinator, "dropped", 1)
        finally:
            await coordinator.stop()
        (received,) = receiver.received
    assert [each["event_id"] for each in received.document["data"]["notifications"]] == [2, 4]


@pytest.mark.parametrize("wanted", [True, False])
async def test_the_end_of_a_run_is_sent_before_its_server_ends(
    sqlite_path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wanted: bool
) -> None:
    """Where servers share a database, another one sends it."""
    setup = Setup(sqlite_path, tmp_path, monkeypatch)
    with Receiver() as receiver:
        setup.send_to(receiver)
        async with setup.server() as coordinator:
            request = CreateSwarmRequest(swarm_id=SWARM, notify_on_complete=wanted)
            await coordinator.swarms.create_swarm(request)
            packet = RegisterRequest(packet_id=1, packet_name="p", tasks_total=1, worktree="/w")
            await coordinator.swarms.register(SWARM, packet)
            done = CompleteRequest(
                packet_id=1, final_commit="abcdef0", tests_passed=True, review_passed=True
            )
            await coordinator.swarms.complete(SWARM, done)
        kinds = [each.document["type"] for each in receiver.received]
    assert kinds == (["shiftboss.run_finished"] if wanted else [])


async def test_a_command_gets_the_notification_and_few_variables(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    target = setup.folder / "seen.json"
    script = (
        "import json, os, sys; json.dump([json.load(sys.stdin), dict(os.environ)], "
        f"open({str(target)!r}, 'w'))"
    )
    argv = json.dumps([sys.executable, "-c", script])
    setup.write(f"channels:\n  script: {{kind: command, command: {argv}}}\n")
    async with setup.server() as coordinator:
        await ask(coordinator)
        await until_state(coordinator, "sent")
    body, variables = json.loads(target.read_text(encoding="utf-8"))
    assert body["type"] == "shiftboss.question"
    assert variables["SHIFTBOSS_KIND"] == "question"
    assert variables["SHIFTBOSS_SWARM"] == SWARM
    assert "HOOK_SECRET" not in variables


class Failing:
    """A channel with an error in it that nobody thought of."""

    target = "somewhere"

    def __init__(self, *, has_secret: bool) -> None:
        self.has_secret = has_secret

    def problem(self) -> str | None:
        return None

    async def send(self, envelope: OutgoingMessage) -> None:
        raise ValueError(f"no {SECRET}\nin {envelope.address}")

    async def close(self) -> None:
        pass


@pytest.mark.parametrize("has_secret", [False, True])
async def test_an_unexpected_error_shows_its_cause_but_no_secret(
    setup: Setup, monkeypatch: pytest.MonkeyPatch, has_secret: bool
) -> None:
    setup.write("channels: {odd: {kind: command, command: [sh]}}\n")
    async with setup.server() as coordinator:
        channels = coordinator.notifications.channels.by_name
        monkeypatch.setitem(channels, "odd", Failing(has_secret=has_secret))
        tried = await coordinator.notifications.send_test_notification(SendTestRequest())
    error = tried.results[0].error or ""
    assert error.startswith("unexpected error (ValueError")
    assert (SECRET in error) is not has_secret
    assert "\n" not in error


async def test_a_reload_changes_the_channels_and_drops_what_waits_for_former_ones(
    setup: Setup,
) -> None:
    with Receiver("hang") as gone, Receiver() as new:
        setup.send_to(gone)
        async with setup.server() as coordinator:
            await ask(coordinator)
            await eventually(lambda: gone.received, "it is under way")
            setup.write(
                "channels: {other: {kind: webhook, secret_variable: HOOK_SECRET, "
                f"url: '{new.url}'}}}}\n"
            )
            assert await coordinator.notifications.channels.reload() == ["channels: other"]
            assert await coordinator.notifications.channels.reload() == ()
            await until_state(coordinator, "dropped")
            await ask(coordinator)
            await until_state(coordinator, "sent")
            listing = await coordinator.notifications.list_channels(ListChannelsRequest())
        assert [each.name for each in listing.channels] == ["other"]
        assert len(new.received) == 1


async def test_a_test_is_sent_at_once_and_names_the_error(setup: Setup) -> None:
    with Receiver(410) as receiver:
        setup.send_to(receiver)
        async with setup.server() as coordinator:
            service = coordinator.notifications
            failed = await service.send_test_notification(SendTestRequest(channel="hook"))
            taken = await service.send_test_notification(SendTestRequest())
            assert await listed(coordinator) == []
    assert [each.error for each in (*failed.results, *taken.results)] == ["HTTP 410", None]
    assert (failed.success, taken.success) == (False, True)


async def test_old_notifications_are_deleted_with_their_deliveries(setup: Setup) -> None:
    with Receiver() as receiver:
        setup.send_to(receiver)
        async with setup.server() as coordinator:
            await ask(coordinator, count=3)
            await until_state(coordinator, "sent", 3)
            later_ms = coordinator.clock() + 1
            store = coordinator.store
            assert await store.write(lambda tx: tx.prune_records(later_ms, 100), "") == 2
            assert [each.number for each in await listed(coordinator)] == [3]
