"""Every server records itself; differences and readiness are shown."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import ClassVar

import pytest

from shiftboss import __version__
from shiftboss.coordinator.coordinator import Coordinator
from shiftboss.coordinator.duties.duty_record import DutyRecord
from shiftboss.errors import IncompatibleServers
from shiftboss.protocol.bus import PollRequest, RegisterWorkerRequest, StatusRequest
from shiftboss.protocol.contract.contract_requests import ApplyPolicyRequest
from shiftboss.protocol.deployment.servers import DeploymentView, ShowDeploymentRequest
from shiftboss.rules.deployment.readiness import ReadinessProblem
from shiftboss.rules.deployment.records import DeploymentServer
from shiftboss.rules.deployment.servers import KEPT_MS, LIVING_MS
from shiftboss.server.http.app import App
from shiftboss.store.backups.backup import back_up, restore
from shiftboss.store.open_store import store_at
from tests.conformance.bus.bus_fixtures import StillClock
from tests.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("OWN-05")]

Body = dict[str, object]


@asynccontextmanager
async def server(
    address: str, clock: StillClock, version: str = __version__, **facts: str
) -> AsyncIterator[Coordinator]:
    coordinator = Coordinator(store_at(address), clock=clock, verifies=False)
    coordinator.presence.version = version
    coordinator.presence.address = f"http://{facts.get('name', 'one')}"
    for name, value in facts.items():
        coordinator.deployment.facts[name] = lambda value=value: value  # type: ignore[misc]
    await coordinator.start()
    try:
        yield coordinator
    finally:
        await coordinator.stop()


async def shown(coordinator: Coordinator) -> DeploymentView:
    return await coordinator.deployment.show_deployment(ShowDeploymentRequest())


async def get(app: App, path: str, *headers: tuple[bytes, bytes]) -> tuple[int, Body]:
    sent: list[dict[str, object]] = []

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: object) -> None:
        assert isinstance(message, dict)
        sent.append(message)

    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "query_string": b"",
        "headers": [(b"host", b"127.0.0.1"), *headers],
    }
    await app(scope, receive, send)
    status, body = sent[0]["status"], sent[1]["body"]
    assert isinstance(status, int)
    assert isinstance(body, bytes)
    return status, json.loads(body)


async def test_a_server_is_shown_while_it_lives_and_after_it_stopped(store_address: str) -> None:
    clock = StillClock()
    async with server(store_address, clock) as one:
        view = await shown(one)
        (here,) = view.servers
        assert (here.state, here.version, here.address) == ("living", __version__, "http://one")
        assert (view.server_id, view.ready, view.differences) == (here.server_id, True, [])
        assert here.facts["schema"] == view.schema_version == one.store.schema_version
    clock.now_ms += 1000
    async with server(store_address, clock) as other:
        assert {each.state for each in (await shown(other)).servers} == {"living", "stopped"}
        clock.now_ms += KEPT_MS + 1
        await other.presence.renew()
        assert [each.state for each in (await shown(other)).servers] == ["living"]


async def test_the_leader_and_the_differences_of_two_servers_are_shown(postgres_url: str) -> None:
    clock = StillClock()
    settings = {"operator_token": "aaaa", "policy": "p"}
    async with (
        server(postgres_url, clock, name="one", **settings) as one,
        server(postgres_url, clock, name="two", **settings | {"policy": "q"}) as two,
    ):
        assert [each.name for each in two.deployment.differences] == ["policy"]
        await one.presence.renew()
        assert [each.name for each in one.deployment.differences] == ["policy"]
        status, ready = await get(App(one), "/ready")
        assert (status, ready["status"]) == (200, "ready")
        assert "http://two" in json.dumps(ready["differences"])

        def leads() -> bool:
            return any(each.presence.facts["leads"]() for each in (one, two))

        await eventually(leads, "one of them leads")
        for each in (one, two):
            await each.presence.renew()
        view = await shown(one)
        assert view.leader in {each.server_id for each in view.servers}
        assert sum(each.leads for each in view.servers) == 1
        assert "aaaa" not in view.model_dump_json(), "digests of tokens are shown to nobody"


async def test_what_is_compared_is_recorded_as_soon_as_it_changes(postgres_url: str) -> None:
    clock = StillClock()
    async with (
        server(postgres_url, clock, name="one", policy="p") as one,
        server(postgres_url, clock, name="two", policy="p") as two,
    ):
        for each in (one, two):
            each.deployment.facts["policy"] = lambda: "q"
            await each.settings.read()
        assert [each.name for each in (await shown(one)).differences] == []


async def test_a_server_of_a_restored_database_does_not_count_as_living(
    postgres_url: str, tmp_path: Path
) -> None:
    clock = StillClock()
    async with server(postgres_url, clock, "0.1.0"):
        back_up(postgres_url, tmp_path / "backup", now_ms=clock.now_ms)
    restore(postgres_url, tmp_path / "backup", force=True, now_ms=clock.now_ms)
    async with server(postgres_url, clock, "0.3.0") as newer:
        states = sorted(each.state for each in (await shown(newer)).servers)
        assert states == ["living", "stopped"]


async def test_a_server_that_is_silent_is_no_longer_compared(postgres_url: str) -> None:
    clock = StillClock()
    async with server(postgres_url, clock, name="one", policy="p") as one:
        gone = DeploymentServer(
            "gone", "h", "http://gone", __version__, clock.now_ms, clock.now_ms, None, "{}"
        )
        await one.store.write(
            lambda tx: tx.put_server(gone._replace(facts='{"policy": "q"}')), partition=""
        )
        await one.presence.renew()
        assert [each.name for each in one.deployment.differences] == ["policy"]
        clock.now_ms += LIVING_MS
        await one.presence.renew()
        assert one.deployment.differences == []
        states = {each.server_id: each.state for each in (await shown(one)).servers}
        assert states == {"gone": "silent", one.presence.server_id: "living"}


async def test_a_server_that_crashed_and_was_started_again_is_compared_once(
    postgres_url: str,
) -> None:
    """The row of the one that crashed counted as living for another half minute."""
    clock = StillClock()
    async with server(postgres_url, clock, name="one", policy="p") as one:
        own = one.presence.row(clock.now_ms)
        before = own.started_at_ms - 1
        earlier = own._replace(started_at_ms=before, seen_at_ms=before)
        crashed = earlier._replace(server_id="crashed", facts='{"policy": "q"}')
        twin = crashed._replace(server_id="twin", host="another", facts='{"policy": "p"}')
        await one.store.write(lambda tx: tx.put_server(crashed), partition="")
        await one.store.write(lambda tx: tx.put_server(twin), partition="")
        await one.presence.renew()
        assert one.deployment.differences == []
        view = await shown(one)
        assert view.differences == []
        states = {each.server_id: each.state for each in view.servers}
        assert (states["crashed"], states["twin"]) == ("silent", "living")
        # One that is still renewed has not crashed: the names of the machines are the same.
        back = crashed._replace(seen_at_ms=clock.now_ms)
        await one.store.write(lambda tx: tx.put_server(back), partition="")
        await one.presence.renew()
        assert [each.name for each in one.deployment.differences] == ["policy"]


async def test_a_policy_that_is_applied_is_no_difference(postgres_url: str) -> None:
    """Each server had said which one it has only at its next renewal, ten seconds later."""
    clock = StillClock()
    async with (
        server(postgres_url, clock, name="one") as one,
        server(postgres_url, clock, name="two") as two,
    ):
        request = ApplyPolicyRequest(body="repos: {}\n", source="/shiftboss.yaml")
        await one.policies.apply_policy(request)
        await two.settings.read()
        for each in (one, two):
            assert (await shown(each)).differences == []
            assert each.deployment.differences == []


async def test_versions_that_are_too_far_apart_do_not_meet(postgres_url: str) -> None:
    clock = StillClock()
    async with server(postgres_url, clock, "0.4.0"):
        async with server(postgres_url, clock, "0.3.9") as near:
            assert [each.severity for each in near.deployment.differences] == ["information"]
        with pytest.raises(IncompatibleServers, match=r"0.4.0 at http://one") as refused:
            async with server(postgres_url, clock, "0.2.0"):
                pass
        assert "kill " in (refused.value.hint or "")
    async with server(postgres_url, clock, "0.2.0"):
        pass


async def test_strangers_learn_from_ready_only_whether_it_is(sqlite_path: str) -> None:
    async with server(sqlite_path, StillClock()) as one:
        app = App(one, token="t" * 20)
        assert await get(app, "/ready") == (200, {"status": "ready"})
        one.deployment.not_ready["clock"] = lambda: ReadinessProblem(
            "clock", "70 s ahead", "set the clock"
        )
        status, refusal = await get(app, "/ready")
        assert (status, refusal["code"]) == (503, "not_ready")
        assert "70 s" not in json.dumps(refusal)
        known = (b"authorization", b"Bearer " + b"t" * 20)
        status, ready = await get(app, "/ready", known)
        assert status == 503
        reason = {"name": "clock", "detail": "70 s ahead", "todo": "set the clock"}
        assert ready["reasons"] == [reason | {"command": "shiftboss doctor"}]
        assert ready["differences"] == []
        status, health = await get(app, "/health")
        assert status == 200, "it answers, and may not get traffic"
        assert (health["status"], "problems" in health) == ("degraded", False)
        _, health = await get(app, "/health", known)
        assert health["problems"] == [reason | {"command": "shiftboss doctor"}]


async def reasons(coordinator: Coordinator) -> list[str]:
    return [reason.name for reason in await coordinator.deployment.reasons()]


async def test_a_log_that_cannot_be_cut_back_is_a_warning(store_address: str) -> None:
    async with server(store_address, StillClock()) as one:
        assert await one.deployment.warnings() == []
        one.store.measures.log_bytes_held = 300 * 2**20
        (warning,) = await one.deployment.warnings()
        assert warning.name == "write_ahead_log"
        assert "300 MB" in warning.detail
        assert await reasons(one) == [], "it goes on serving"


async def test_a_stopping_server_and_one_with_a_full_disk_are_not_ready(
    store_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with server(store_address, StillClock()) as one:
        assert await reasons(one) == []
        state = tmp_path / "state"
        state.mkdir()
        folders = {"database": tmp_path, "state folder": state, "other": tmp_path / "missing"}
        one.deployment.folders = folders
        monkeypatch.setattr("shiftboss.rules.deployment.readiness.DISK_BYTES_MIN", 2**62)
        assert await reasons(one) == ["disk"]
        (disk,) = (await shown(one)).disks
        # Both folders are on the same disk, which is reported once.
        assert (disk.what, disk.path) == ("database and the state folder", str(tmp_path))
        assert 0 < disk.free_bytes < disk.total_bytes
        one.hub.close()
        assert await reasons(one) == ["stopping", "disk"]


async def test_duties_that_end_with_an_error_are_said_and_start_again(
    store_address: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("shiftboss.coordinator.duties.supervision.RESTART_SECONDS", 0.01)

    class Failing:
        on_every_server: ClassVar[bool] = True
        record = DutyRecord("Failing")
        started = 0

        async def run(self) -> None:
            self.started += 1
            if self.started == 1:
                raise RuntimeError("unexpected")
            await asyncio.Event().wait()

    failing = Failing()
    coordinator = Coordinator(store_at(store_address), verifies=False)
    coordinator.everywhere.duties.append(failing)
    await coordinator.start()
    try:
        await eventually(lambda: failing.started == 2, "the duties start again")
        (reason,) = await coordinator.deployment.reasons()
        assert (reason.name, "unexpected" in reason.detail) == ("duties", True)
        assert "a duty ended" in caplog.text
    finally:
        await coordinator.stop()


async def test_a_server_whose_duty_hangs_is_not_ready_until_the_round_ends(
    store_address: str,
) -> None:
    elapsed, may_end, ended = 0.0, asyncio.Event(), asyncio.Event()

    class Hanging:
        on_every_server: ClassVar[bool] = True
        record = DutyRecord("Hanging", 300, lambda: elapsed)

        async def run(self) -> None:
            with self.record.round():
                await may_end.wait()
            ended.set()
            await asyncio.Event().wait()

    hanging = Hanging()
    coordinator = Coordinator(store_at(store_address), verifies=False)
    coordinator.everywhere.duties.append(hanging)
    await coordinator.start()
    try:
        await eventually(lambda: hanging.record.runs == 1, "it has begun")
        assert await coordinator.deployment.reasons() == []
        elapsed = 301.0
        assert (await get(App(coordinator), "/ready"))[0] == 503
        (reason,) = await coordinator.deployment.reasons()
        assert reason.name == "duties"
        assert "the duty Hanging has had no success for 301 s" in reason.detail
        may_end.set()
        await ended.wait()
        assert await coordinator.deployment.reasons() == []
    finally:
        await coordinator.stop()


async def test_claims_verifiers_and_webhooks_are_shown(store_address: str) -> None:
    clock = StillClock()
    async with server(store_address, clock) as one:
        await one.claims.take_for("far-away")
        one.webhooks.last_seen.note("api", clock.now_ms)

        async def problems() -> list[str]:
            return ["FORGE_TOKEN is not set: api"]

        one.deployment.credentials = problems
        clock.now_ms += LIVING_MS
        view = await shown(one)
        assert [each.state for each in view.servers] == ["living"]
        assert list(view.verifiers) == ["far-away"]
        assert list(view.webhooks) == ["api"]
        assert view.credentials == ["FORGE_TOKEN is not set: api"]
        assert view.waiting_claims == []
        assert len(view.policy["policy"]) == 64


async def test_a_worker_that_waits_at_another_server_is_counted(postgres_url: str) -> None:
    clock = StillClock()
    async with (
        server(postgres_url, clock, name="one") as one,
        server(postgres_url, clock, name="two") as two,
    ):
        await one.bus.register_worker(RegisterWorkerRequest(name="w1"))
        poll = asyncio.create_task(one.bus.poll_task(PollRequest(name="w1", timeout_ms=60_000)))
        await eventually(lambda: bool(one.hub.polling("default")), "the poll is parked")
        assert (await two.swarms.status("default")).bus.workers == 0
        for each in (one, two):
            await each.presence.renew()
        assert (await two.swarms.status("default")).bus.workers == 1
        (row,) = (await two.bus.get_status(StatusRequest())).workers
        assert row.status == "polling"
        assert all("polling" not in each.facts for each in (await shown(two)).servers)
        poll.cancel()
        await eventually(lambda: not one.hub.polling("default"), "nobody polls")
        for each in (one, two):
            await each.presence.renew()
        assert (await two.swarms.status("default")).bus.workers == 0
