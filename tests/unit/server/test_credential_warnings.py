"""A server without a secret that its policy names says so when it starts, and when it is asked."""

from __future__ import annotations

import logging

import pytest

from shiftboss.coordinator.coordinator import Coordinator
from shiftboss.protocol.policy import Policy
from shiftboss.server.run import warn_about_credentials
from shiftboss.store.open_store import store_at

POLICY = Policy.model_validate(
    {
        "repos": {
            name: {"ci": {"provider": "github", "repository": "a/b", "token_variable": "NO_TOKEN"}}
            for name in ("one", "two")
        }
    }
)
TEXT = "there is no token in $NO_TOKEN (repos one, two): their CI cannot be asked"


@pytest.fixture(autouse=True)
def no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_TOKEN", raising=False)


def test_the_log_names_the_variable_and_the_repos(caplog: pytest.LogCaptureFixture) -> None:
    warn_about_credentials(POLICY)
    assert TEXT in caplog.text


def test_it_is_said_even_if_the_log_has_errors_only(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.ERROR, "shiftboss.server.run")
    warn_about_credentials(POLICY)
    assert TEXT in capsys.readouterr().err


@pytest.mark.anyio
async def test_the_coordinator_tells_the_problems_of_now(
    sqlite_path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    coordinator = Coordinator(store_at(sqlite_path), policy=POLICY)
    (problem,) = await coordinator.health.credential_problems()
    assert (problem.place, problem.repos) == ("$NO_TOKEN", ["one", "two"])
    monkeypatch.setenv("NO_TOKEN", "now-there-is-one")
    assert await coordinator.health.credential_problems() == []
