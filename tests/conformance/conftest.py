"""An open store of each kind for each test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.conformance.bus.bus_fixtures import BusFixture, open_bus
from tests.conformance.contract.contract_fixtures import ContractFixture, open_contract
from tests.conformance.handoffs.handoff_fixtures import HandoffFixture, open_handoffs
from tests.conformance.opened import OpenStore, opened
from tests.fork_server_process import prepare_little_log
from tests.repos import Repo
from tests.verifying import LocalEvidence

prepare_little_log()


@pytest.fixture
async def store(store_address: str) -> AsyncIterator[OpenStore]:
    """An open store on an empty database."""
    async with opened(store_address) as it:
        yield it


@pytest.fixture
async def with_swarm(store: OpenStore) -> OpenStore:
    """The same store with the swarm SWARM in it."""
    await store.add_swarm()
    return store


@pytest.fixture
async def bus(store_address: str) -> AsyncIterator[BusFixture]:
    """A bus on an empty database, with a clock that stands still."""
    async with open_bus(store_address) as it:
        yield it


@pytest.fixture(scope="session")
def repo(tmp_path_factory: pytest.TempPathFactory) -> Repo:
    """Shared by all tests: they only read it."""
    return Repo(tmp_path_factory.mktemp("repos") / "repo")


class SharedEvidence(LocalEvidence):
    """Used by the coordinators of many tests, each of which closes its evidence when it stops."""

    async def close(self) -> None:
        pass

    def close_at_last(self) -> None:
        asyncio.run(super().close())


@pytest.fixture(scope="session")
def evidence(tmp_path_factory: pytest.TempPathFactory, repo: Repo) -> Iterator[LocalEvidence]:
    """Reads `repo` and signs receipts. The tests report the verdicts."""
    shared = SharedEvidence(tmp_path_factory.mktemp("evidence"), str(repo.path))
    yield shared
    shared.close_at_last()


@pytest.fixture
async def handoffs(
    store_address: str, evidence: LocalEvidence, repo: Repo
) -> AsyncIterator[HandoffFixture]:
    """A bus with handoffs on an empty database; the test acts as the verifier."""
    async with open_handoffs(store_address, evidence, repo) as it:
        yield it


@pytest.fixture(scope="session")
def pushed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Repo, list[str]]:
    """A repository with commits to push. Tests only read it."""
    repo = Repo(tmp_path_factory.mktemp("repos") / "pushed")
    return repo, [repo.commit(f"work {number}") for number in range(8)]


@pytest.fixture
async def contract(
    store_address: str, tmp_path: Path, pushed: tuple[Repo, list[str]]
) -> AsyncIterator[ContractFixture]:
    """The document's ten repos under the completion contract; duties run only on request."""
    async with open_contract(store_address, tmp_path, *pushed) as it:
        yield it
