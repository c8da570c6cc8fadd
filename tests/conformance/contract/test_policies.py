"""The policy is a version in the store: who puts it there, and that all servers go by one."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from operator import methodcaller
from pathlib import Path

import pytest

from shiftboss.coordinator.coordinator import Coordinator
from shiftboss.coordinator.duties.cascade_watcher import CascadeWatcher
from shiftboss.coordinator.duties.timeout_watcher import TimeoutWatcher
from shiftboss.errors import (
    InvalidPolicy,
    PolicyChanging,
    RepoBlocked,
    StalePolicy,
    UnknownPolicy,
    UnknownRepo,
)
from shiftboss.protocol.contract.contract_requests import (
    ApplyPolicyAnswer,
    ApplyPolicyRequest,
    CanSpawnRequest,
    ListPoliciesRequest,
    PolicyView,
    ShowPolicyRequest,
)
from shiftboss.protocol.handoff_requests import SpawnSubtaskRequest
from shiftboss.rules.access.actors import Actor
from shiftboss.rules.access.roles import Role
from shiftboss.rules.deployment.records import StoredPolicy
from shiftboss.server.offline import OfflineServer
from shiftboss.store.current_actor import CURRENT_ACTOR
from shiftboss.store.open_store import store_at
from tests.conformance.bus.bus_fixtures import BusFixture, StillClock
from tests.repos import Repo
from tests.verifying import LocalEvidence
from tests.waiting import eventually

pytestmark = pytest.mark.anyio

ALICE = Actor("alice", Role.OPERATOR)

CHAIN = "repos: {core: {path: core}, app: {path: app, depends_on: [core]}}\n"
APART = "repos: {core: {path: core}, app: {path: app}}\n"


@pytest.fixture(scope="session")
def repos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the repositories core and app. Tests only read them."""
    folder = tmp_path_factory.mktemp("chain")
    for name in ("core", "app"):
        Repo(folder / name)
    return folder


class Server:
    def __init__(self, coordinator: Coordinator) -> None:
        self.coordinator = coordinator

    async def show(self, version: int | None = None) -> PolicyView:
        return await self.coordinator.policies.show_policy(ShowPolicyRequest(version=version))

    async def apply(self, file: Path, expected: int | None = None) -> ApplyPolicyAnswer:
        body = await asyncio.to_thread(file.read_text)
        request = ApplyPolicyRequest(body=body, source=str(file), expected_version=expected)
        caller = CURRENT_ACTOR.set(ALICE)
        try:
            return await self.coordinator.policies.apply_policy(request)
        finally:
            CURRENT_ACTOR.reset(caller)

    async def spawn(self, task: str, repo: str) -> None:
        request = SpawnSubtaskRequest(
            bead_id=task, repo=repo, files=[f"{task}.py"], subtask_title=task
        )
        await self.coordinator.handoffs.spawn_subtask(request)

    async def can_spawn(self, repo: str) -> bool:
        return (await self.coordinator.contract.can_spawn(CanSpawnRequest(repo=repo))).can_spawn

    async def history(self) -> list[tuple[int, str | None]]:
        listed = await self.coordinator.policies.list_policies(ListPoliciesRequest())
        return [(each.version, each.applied_by) for each in listed.versions]


@asynccontextmanager
async def server_on(
    address: str, file: Path | None, evidence: LocalEvidence
) -> AsyncIterator[Server]:
    coordinator = Coordinator(store_at(address), evidence, verifies=False, policy_file=file)
    try:
        await coordinator.start()
        yield Server(coordinator)
    finally:
        await coordinator.stop()


@pytest.fixture
def files(repos: Path, tmp_path: Path) -> Iterator[list[Path]]:
    """Two policy files that differ: only in the first one app depends on core."""
    name = f"{tmp_path.name}-{os.getpid()}"
    written = [repos / f"{name}-chain.yaml", repos / f"{name}-apart.yaml"]
    for file, text in zip(written, (CHAIN, APART), strict=True):
        file.write_text(text)
    yield written
    for file in written:
        file.unlink()


@pytest.mark.requirement("OWN-05")
async def test_both_halves_of_a_chain_are_not_workable_where_the_files_of_servers_differ(
    postgres_url: str, files: list[Path], evidence: LocalEvidence, caplog: pytest.LogCaptureFixture
) -> None:
    chain, apart = files
    async with (
        server_on(postgres_url, chain, evidence) as one,
        server_on(postgres_url, apart, evidence) as other,
    ):
        assert f"{apart} is not in force" in caplog.text
        assert f"shiftboss policy apply {apart}" in caplog.text
        await one.spawn("t1", "core")
        with pytest.raises(RepoBlocked):
            await other.spawn("t2", "app")
        view = await other.show()
        assert (view.version, view.applied_by, view.source) == (1, "server", str(chain))
        assert view.file is not None
        assert view.file.changes == ['~ repos.app.depends_on: ["core"] -> []']
        own = (await one.show()).file
        assert own is not None
        assert own.changes == []


async def test_an_applied_policy_is_in_force_on_all_servers_and_names_who_applied_it(
    postgres_url: str, files: list[Path], evidence: LocalEvidence
) -> None:
    chain, apart = files
    async with (
        server_on(postgres_url, chain, evidence) as one,
        server_on(postgres_url, None, evidence) as other,
    ):
        await one.spawn("t1", "core")
        assert not await other.can_spawn("app")
        answer = await one.apply(apart, expected=1)
        assert (answer.changed, answer.version) == (True, 2)
        assert answer.changes == ['~ repos.app.depends_on: ["core"] -> []']
        assert await one.can_spawn("app")
        policies = other.coordinator.policies
        await eventually(
            lambda: policies.in_force is not None and policies.in_force.version == 2,
            "the other server goes by it",
        )
        await other.spawn("t2", "app")
        assert await other.history() == [(2, "alice"), (1, "server")]
        assert (await other.show(1)).body == CHAIN
        assert not (await other.show(1)).is_in_force


async def test_a_server_that_has_not_heard_of_a_new_policy_locks_nothing(
    postgres_url: str, files: list[Path], evidence: LocalEvidence, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain, apart = files
    async with (
        server_on(postgres_url, apart, evidence) as one,
        server_on(postgres_url, None, evidence) as deaf,
    ):
        monkeypatch.setattr(deaf.coordinator.settings, "_loads", [])
        await one.apply(chain)
        await one.spawn("t1", "core")
        with pytest.raises(PolicyChanging):
            await deaf.spawn("t2", "app")
        monkeypatch.undo()
        await deaf.coordinator.settings.read()
        with pytest.raises(RepoBlocked):
            await deaf.spawn("t2", "app")


async def test_the_second_of_two_conflicting_changes_is_told(
    store_address: str, files: list[Path], evidence: LocalEvidence
) -> None:
    chain, apart = files
    async with server_on(store_address, None, evidence) as server:
        assert (await server.show()).version == 0
        assert (await server.apply(chain, expected=0)).version == 1
        with pytest.raises(StalePolicy) as refused:
            await server.apply(apart, expected=0)
        assert "applied by alice" in refused.value.detail
        assert refused.value.facts == {"current_version": 1}
        again = await server.apply(chain, expected=0)
        assert (again.changed, again.version) == (False, 1), "a repeat got its first answer"
        assert (await server.apply(apart, expected=1)).version == 2
        with pytest.raises(UnknownPolicy):
            await server.show(3)


async def test_a_policy_that_is_not_valid_changes_nothing(
    store_address: str, files: list[Path], evidence: LocalEvidence
) -> None:
    chain, apart = files
    async with server_on(store_address, chain, evidence) as server:
        apart.write_text("repos: {core: {path: core, depends_on: [nobody]}}\n")
        with pytest.raises(InvalidPolicy, match="nobody"):
            await server.apply(apart)
        assert (await server.show()).body == CHAIN


async def test_a_single_server_applies_its_edited_file_when_it_starts(
    sqlite_path: str, files: list[Path], evidence: LocalEvidence
) -> None:
    file, _ = files
    for _ in range(2):
        async with server_on(sqlite_path, file, evidence) as server:
            assert await server.history() == [(1, "server")]
    file.write_text(f"# a comment\n{CHAIN}")
    async with server_on(sqlite_path, file, evidence) as server:
        assert await server.history() == [(1, "server")]
        file.write_text(APART)
        edited = (await server.show()).file
        assert edited is not None
        assert edited.changes == ['~ repos.app.depends_on: ["core"] -> []']
        file.write_text("repos: [")
        broken = (await server.show()).file
        assert broken is not None
        assert broken.problem is not None
        file.write_text(APART)
    async with server_on(sqlite_path, file, evidence) as server:
        assert await server.history() == [(2, "server"), (1, "server")]
        assert (await server.show()).body == APART
    async with server_on(sqlite_path, None, evidence) as server:
        assert (await server.show()).body == APART, "without a file, the stored one stays"


async def test_a_single_server_says_that_its_own_file_comes_back(
    sqlite_path: str, files: list[Path], evidence: LocalEvidence
) -> None:
    chain, apart = files
    async with server_on(sqlite_path, chain, evidence) as server:
        (warning,) = (await server.apply(apart)).warnings
        assert str(chain) in warning
        assert "applied again when the server starts" in warning


async def test_the_lock_of_a_repo_that_leaves_the_policy_is_named(
    store_address: str, files: list[Path], evidence: LocalEvidence
) -> None:
    chain, other = files
    async with server_on(store_address, None, evidence) as server:
        await server.apply(chain)
        await server.spawn("t1", "core")
        other.write_text("repos: {app: {path: app}}\n")
        (warning,) = (await server.apply(other)).warnings
        assert "core is locked for t1" in warning
        with pytest.raises(UnknownRepo):
            await server.can_spawn("core")


async def test_a_server_that_cannot_read_a_newer_policy_keeps_its_own_and_locks_nothing(
    postgres_url: str, files: list[Path], evidence: LocalEvidence, caplog: pytest.LogCaptureFixture
) -> None:
    chain, _ = files
    newer = StoredPolicy(2, "of_a_newer_version: 1\n", "0" * 64, 1, "alice", str(chain))
    async with server_on(postgres_url, chain, evidence) as server:
        await server.coordinator.store.write(methodcaller("add_policy", newer), "")
        for _ in range(2):
            await server.coordinator.settings.read()
        assert caplog.text.count("version 2 of the policy cannot be read here") == 1
        view = await server.show()
        assert (view.version, view.body) == (1, CHAIN)
        assert "of_a_newer_version" in (view.problem or "")
        with pytest.raises(PolicyChanging):
            await server.spawn("t1", "core")
    with pytest.raises(InvalidPolicy):
        async with server_on(postgres_url, chain, evidence):
            pass


async def test_versions_are_listed_in_pages(
    store_address: str, files: list[Path], evidence: LocalEvidence
) -> None:
    async with server_on(store_address, None, evidence) as server:
        for number in range(5):
            await server.apply(files[number % 2])
        policies = server.coordinator.policies
        pages, before = [], None
        while True:
            page = await policies.list_policies(ListPoliciesRequest(before=before, limit=2))
            pages.append([each.version for each in page.versions])
            if page.next_before is None:
                break
            before = page.next_before
        assert pages == [[5, 4], [3, 2], [1]]


async def test_duties_begin_with_the_first_policy(sqlite_path: str, files: list[Path]) -> None:
    """A server without repos in its policy times no tasks; one is applied while it runs."""
    clock = StillClock()
    coordinator = Coordinator(store_at(sqlite_path), clock=clock)
    duties = coordinator.on_leader.duties
    watchers = [duty for duty in duties if isinstance(duty, TimeoutWatcher | CascadeWatcher)]
    duties.clear()
    coordinator.everywhere.duties.clear()
    await coordinator.start()
    try:
        bus = BusFixture(coordinator, clock)
        woken = []
        for task in ("before", "after"):
            await bus.register("w")
            await bus.add_and_submit(task)
            for watcher in watchers:
                watcher._changed.clear()
            await bus.start("w", task)
            woken.append([watcher._changed.is_set() for watcher in watchers])
            await bus.done(task)
            await Server(coordinator).apply(files[0])
        assert woken == [[False, False], [True, True]]
    finally:
        await coordinator.stop()


def test_without_a_server_the_stored_policy_counts_and_else_the_file(
    sqlite_path: str, tmp_path: Path
) -> None:
    folder = tmp_path / ".shiftboss"
    folder.mkdir(mode=0o700)
    database = folder / "shiftboss.db"
    database.write_bytes(Path(sqlite_path).read_bytes())
    (tmp_path / "shiftboss.yaml").write_text(CHAIN)

    def call(path: str, body: dict[str, object]) -> dict[str, object]:
        server = OfflineServer(database)
        headers = [(b"content-type", b"application/json")]
        try:
            reply = server.request("POST", path, headers, json.dumps(body).encode())
        finally:
            server.close()
        assert reply.status == 200, reply.body
        answer: dict[str, object] = json.loads(reply.body)
        return answer

    assert call("/bus/show_policy", {})["version"] == 0
    assert {"core", "app"} <= set(call("/bus/show_policy", {})["policy"]["repos"])  # type: ignore[index]
    source = str(tmp_path / "other.yaml")
    assert call("/operator/apply_policy", {"body": APART, "source": source})["version"] == 1
    assert call("/bus/show_policy", {})["body"] == APART
