"""Fixtures of the tests with a fake forge."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.e2e.ci.forge_provider import FLAVOURS, Provider
from tests.forge import TOKEN, Forge, running_forge


@pytest.fixture
def forge_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORGE_TOKEN", TOKEN)


@pytest.fixture(params=FLAVOURS)
def forge(request: pytest.FixtureRequest, forge_token: None) -> Iterator[Forge]:
    with running_forge(request.param) as running:
        yield running


@pytest.fixture
async def ci(forge: Forge) -> AsyncIterator[Provider]:
    ci = Provider(forge)
    yield ci
    await ci.http.close()
