"""Answers and problem documents on the worker's side."""

from __future__ import annotations

import httpx2
import pytest

from shiftboss import errors
from shiftboss.client.exchange import (
    ForeignAnswer,
    ServerUnreachable,
    answer_of,
    reaching,
    says_later,
    swarm_path,
)
from shiftboss.errors import ShiftbossError
from shiftboss.protocol.problems import problem_of

KINDS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, ShiftbossError)
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.code)
def test_every_error_of_the_server_comes_out_as_itself(kind: type[ShiftbossError]) -> None:
    sent = kind.__new__(kind)
    ShiftbossError.__init__(sent, "no", field="commit", hint="try", facts={"recorded": 3})
    with pytest.raises(ShiftbossError) as raised:
        answer_of(httpx2.Response(kind.status, json=problem_of(sent)))
    got = raised.value
    assert type(got) is kind
    assert (got.detail, got.field, got.hint, got.facts) == ("no", "commit", "try", {"recorded": 3})
    assert str(got) == "no"


@pytest.mark.parametrize(
    "content", [b"", b"<html>", b"[]", b"null", b"\xff", b"[" * 100_000, b'{"x":' * 100_000]
)
def test_an_answer_that_is_not_the_servers_is_an_error_and_not_final(content: bytes) -> None:
    response = httpx2.Response(200, content=content)
    assert says_later(response)
    with pytest.raises(ShiftbossError, match="200"):
        answer_of(response)


@pytest.mark.parametrize(
    ("status", "later"),
    [
        (400, False),
        (401, False),
        (404, False),
        (408, True),
        (409, False),
        (422, False),
        (425, True),
        (429, True),
        (500, True),
        (502, True),
        (503, True),
    ],
)
def test_which_problems_are_worth_another_try(status: int, later: bool) -> None:
    assert says_later(httpx2.Response(status, json=problem_of(errors.Conflict("no")))) is later


@pytest.mark.parametrize("status", [200, 201])
def test_an_answer_is_final(status: int) -> None:
    assert not says_later(httpx2.Response(status, json={}))


@pytest.mark.parametrize("status", [302, 400, 401, 403, 404, 409, 422, 502])
@pytest.mark.parametrize("said", [{}, {"code": "teapot"}, {"code": "error"}, {"code": 404}, []])
def test_a_refusal_that_is_not_of_a_shiftboss_server_is_none(status: int, said: object) -> None:
    response = httpx2.Response(status, json=said)
    assert says_later(response)
    with pytest.raises(ServerUnreachable, match=str(status)):
        answer_of(response)


def test_an_answer_without_the_members_of_ours_is_none() -> None:
    response = httpx2.Response(200, json={"registered": True})
    assert answer_of(response, "registered") == {"registered": True}
    with pytest.raises(ForeignAnswer, match="200"):
        answer_of(response, "registered", "packet_id")


@pytest.mark.parametrize(
    ("status", "kind"),
    [(404, errors.NotFound), (409, errors.Conflict), (422, errors.InvalidRequest)],
)
def test_a_code_of_a_later_version_is_an_error_of_its_kind(
    status: int, kind: type[ShiftbossError]
) -> None:
    said = {"type": "urn:shiftboss:later", "code": "later", "detail": "not so"}
    with pytest.raises(kind, match="not so") as raised:
        answer_of(httpx2.Response(status, json=said))
    assert type(raised.value) is kind


@pytest.mark.parametrize("swarm_id", ["", "a/b", "../x", "a?b", "a b", "a\n", "é"])
def test_a_swarm_id_cannot_lead_to_another_path(swarm_id: str) -> None:
    with pytest.raises(errors.InvalidRequest) as refused:
        swarm_path(swarm_id, "status")
    assert refused.value.field == "swarm_id"


def test_an_error_of_the_connection_names_the_server() -> None:
    with (
        pytest.raises(ServerUnreachable, match=r"http://127\.0\.0\.1:1.*refused"),
        reaching("http://127.0.0.1:1"),
    ):
        raise httpx2.ConnectError("refused")
