"""The address and token of the server."""

from __future__ import annotations

import pytest

from shiftboss.client import server_address
from shiftboss.client.server_address import Server
from shiftboss.defaults import ADDRESS
from shiftboss.errors import InvalidRequest


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SHIFTBOSS_URL", raising=False)
    monkeypatch.delenv("SHIFTBOSS_TOKEN", raising=False)


def test_the_argument_overrides_the_environment_which_overrides_the_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert Server.at() == Server(ADDRESS, None)
    monkeypatch.setenv("SHIFTBOSS_URL", "http://127.0.0.1:1/")
    monkeypatch.setenv("SHIFTBOSS_TOKEN", "from-environment\n")
    assert Server.at() == Server("http://127.0.0.1:1", "from-environment")
    assert Server.at("https://boss.test", "mine") == Server("https://boss.test", "mine")


@pytest.mark.parametrize(
    "address", ["127.0.0.1:7432", "ftp://boss.test", "http://", "http://boss.test:99999", "boss"]
)
def test_an_invalid_address_is_refused_immediately(address: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        Server.at(address)
    assert refused.value.field == "server"


def test_a_token_is_never_shown_and_must_fit_into_a_header() -> None:
    with pytest.raises(InvalidRequest) as refused:
        Server.at(token="top\nsecret")
    assert refused.value.field == "token"
    assert "secret" not in str(refused.value)
    assert "secret" not in repr(Server.at(token="secret"))


@pytest.mark.parametrize(
    ("address", "proxied"),
    [
        ("http://127.0.0.1:7432", False),
        ("http://localhost:7432", False),
        ("http://[::1]:7432", False),
        ("http://boss.test:7432", True),
    ],
)
def test_a_proxy_from_the_environment_is_not_used_for_localhost(
    address: str, proxied: bool
) -> None:
    with Server.at(address).client() as client:
        assert client.trust_env is proxied


@pytest.mark.parametrize(
    ("address", "is_plain"),
    [
        ("http://127.0.0.1:7432", True),
        ("http://127.0.0.1:7432/boss", True),
        ("https://127.0.0.1:7432", False),
        ("http://user@127.0.0.1:7432", False),
        # These would be another request if they were sent as they are.
        ("http://127.0.0.1:7432/a b", False),
        ("http://127.0.0.1:7432/\x01", False),
        ("http://b\u00fccher.test:7432", False),
    ],
)
def test_only_an_address_that_can_be_sent_as_it_is_gets_the_lean_exchange(
    address: str, is_plain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_address, "getproxies", dict)
    assert Server.at(address).is_plain is is_plain
