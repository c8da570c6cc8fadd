"""The choice among several addresses, and a token that is read again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from shiftboss.client.addresses import Addresses
from shiftboss.client.errors import ServerBusy, ServerUnreachable, TokenRefused, UnrecognizedReply
from shiftboss.client.server_address import Server
from shiftboss.client.servers import Attempts, Servers
from shiftboss.defaults import ADDRESS
from shiftboss.errors import (
    InvalidRequest,
    OutcomeUnknown,
    StoreUnavailable,
    TooManyRequests,
    Unauthorized,
)
from shiftboss.system.token_files import BadToken

A, B, C = "http://a.test", "http://b.test", "http://c.test"


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SHIFTBOSS_URL", "SHIFTBOSS_TOKEN", "SHIFTBOSS_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.touch(mode=0o600)
    file.write_text("first\n")
    return file


def unreachable(*, is_unchanged: bool = False) -> ServerUnreachable:
    error = ServerUnreachable("no answer")
    error.is_unchanged = is_unchanged
    return error


def exchange(
    servers: Servers,
    answer: Callable[[Server], Exception | None],
    *,
    is_repeatable: bool = True,
) -> list[tuple[str, str | None]]:
    """The addresses and tokens that were tried, until one had no error."""
    tried = []
    attempts = Attempts(servers, is_repeatable=is_repeatable)
    for server in attempts:
        tried.append((server.address, server.token))
        error = answer(server)
        if error is None:
            return tried
        assert isinstance(error, ServerUnreachable | Unauthorized)
        attempts.note_failure(server, error)
    raise AssertionError("attempts end with an error")


@pytest.mark.parametrize(
    "given",
    [f"{A},{B}", f" {A}/ , {B}/,", [A, B], [f"{A},{B}"], (A, B, A)],
    ids=["commas", "spaces", "list", "both", "twice"],
)
def test_several_addresses_are_a_list_or_separated_by_commas(given: str | list[str]) -> None:
    servers = Servers.at(given)
    assert list(servers.addresses) == [A, B]
    assert (servers.address, str(servers.addresses)) == (A, f"{A},{B}")


def test_the_addresses_come_from_the_environment_or_the_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert list(Servers.at().addresses) == [ADDRESS]
    monkeypatch.setenv("SHIFTBOSS_URL", f"{A},{B}")
    assert list(Servers.at().addresses) == [A, B]
    assert list(Servers.at(C).addresses) == [C]


@pytest.mark.parametrize("given", [f"{A},b.test", ",", [A, "ftp://b.test"]])
def test_one_address_that_is_none_is_refused(given: str | list[str]) -> None:
    with pytest.raises(InvalidRequest) as refused:
        Servers.at(given)
    assert refused.value.field == "server"


def test_two_that_notice_the_same_failure_move_on_once() -> None:
    addresses = Addresses([A, B, C])
    addresses.move_on(A)
    addresses.move_on(A)
    assert addresses.current == B
    addresses.move_on(B)
    addresses.move_on(C)
    assert addresses.current == A


def test_a_client_stays_with_the_address_that_works() -> None:
    servers = Servers.at([A, B])
    assert exchange(servers, lambda server: unreachable() if server.address == A else None) == [
        (A, None),
        (B, None),
    ]
    assert exchange(servers, lambda _: None) == [(B, None)]


def test_each_address_is_tried_once_and_the_last_error_is_raised() -> None:
    tried = []

    def answer(server: Server) -> Exception:
        tried.append(server.address)
        return ServerUnreachable(server.address)

    servers = Servers.at([A, B, C])
    with pytest.raises(ServerUnreachable, match=C):
        exchange(servers, answer)
    assert tried == [A, B, C]
    assert servers.address == A


@pytest.mark.parametrize(
    ("error", "is_repeated"),
    [
        (unreachable(is_unchanged=True), True),
        (ServerBusy(StoreUnavailable("no store")), True),
        (unreachable(), False),
        (ServerBusy(OutcomeUnknown("who knows")), False),
        (UnrecognizedReply("a proxy"), False),
    ],
    ids=["not connected", "store", "timeout", "outcome unknown", "proxy"],
)
def test_what_may_have_counted_is_repeated_only_with_a_key(
    error: ServerUnreachable, is_repeated: bool
) -> None:
    def answer(server: Server) -> Exception | None:
        return error if server.address == A else None

    assert len(exchange(Servers.at([A, B]), answer)) == 2, "with a key it always is"
    servers = Servers.at([A, B])
    if is_repeated:
        assert len(exchange(servers, answer, is_repeatable=False)) == 2
    else:
        with pytest.raises(ServerUnreachable):
            exchange(servers, answer, is_repeatable=False)
    assert servers.address == B, "the next request goes to the other one in any case"


def test_a_client_does_not_evade_the_limit_on_its_requests() -> None:
    servers = Servers.at([A, B])
    with pytest.raises(ServerBusy):
        exchange(servers, lambda _: ServerBusy(TooManyRequests("slow down", 1)))
    assert servers.address == A


def test_a_refused_token_is_read_again_and_the_request_repeated(token_file: Path) -> None:
    servers = Servers.at(A, token_file=token_file)
    token_file.write_text("second\n")

    def answer(server: Server) -> Exception | None:
        return None if server.token == "second" else Unauthorized("wrong token")

    assert exchange(servers, answer, is_repeatable=False) == [(A, "first"), (A, "second")]
    assert servers.token == "second"


def test_a_token_file_that_does_not_change_is_waited_for(
    token_file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    servers = Servers.at([A, B], token_file=token_file)
    for _ in range(2):
        with pytest.raises(TokenRefused, match=str(token_file)) as refused:
            exchange(servers, lambda _: Unauthorized("wrong token"))
        servers.tell_refusal_once(refused.value)
    assert len(caplog.records) == 1, "it says once what it waits for"
    token_file.unlink()
    with pytest.raises(TokenRefused):
        exchange(servers, lambda _: Unauthorized("wrong token"))


def test_a_token_without_a_file_is_waited_for_only_if_it_was_accepted_before() -> None:
    servers = Servers.at(A, "mine")
    with pytest.raises(Unauthorized):
        exchange(servers, lambda _: Unauthorized("wrong token"))
    servers.note_accepted()
    with pytest.raises(TokenRefused, match="accept the token again"):
        exchange(servers, lambda _: Unauthorized("wrong token"))


def test_the_token_comes_from_the_argument_the_environment_or_a_file(
    token_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHIFTBOSS_TOKEN_FILE", str(token_file))
    assert (Servers.at().token, Servers.at().token_file) == ("first", token_file)
    monkeypatch.setenv("SHIFTBOSS_TOKEN", "variable")
    assert (Servers.at().token, Servers.at().token_file) == ("variable", None)
    assert Servers.at(token_file=token_file).token == "first"
    assert Servers.at(token="mine").token == "mine"


def test_a_token_file_that_others_can_read_is_refused(token_file: Path) -> None:
    token_file.chmod(0o644)
    with pytest.raises(BadToken, match="can be read by other users"):
        Servers.at(token_file=token_file)
