"""How the HTTP client interprets replies, and which failures it retries."""

from __future__ import annotations

import httpx2
import pytest

from shiftboss import errors
from shiftboss.client.errors import (
    RETRY_AFTER_SECONDS_MAX,
    ServerBusy,
    ServerUnreachable,
    UnrecognizedReply,
    retry_after,
)
from shiftboss.client.http_client import connection_errors, read_reply, swarm_path
from shiftboss.errors import ShiftbossError
from shiftboss.protocol.problems import problem_of

KINDS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type)
    and issubclass(kind, ShiftbossError)
    # Nothing of the request was looked at, so this one is retried: see TlsFailed.
    and kind is not errors.TlsRequired
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.code)
def test_every_server_error_is_raised_as_its_own_class(kind: type[ShiftbossError]) -> None:
    sent = kind.__new__(kind)
    ShiftbossError.__init__(sent, "no", field="commit", hint="try", facts={"recorded": 3})
    with pytest.raises(ShiftbossError) as raised:
        read_reply(httpx2.Response(kind.status, json=problem_of(sent)))
    got = raised.value.problem if isinstance(raised.value, ServerBusy) else raised.value
    assert type(got) is kind
    assert (got.detail, got.field, got.hint, got.facts) == ("no", "commit", "try", {"recorded": 3})
    assert str(got) == "no"


@pytest.mark.parametrize(
    "content", [b"", b"<html>", b"[]", b"null", b"\xff", b"[" * 100_000, b'{"x":' * 100_000]
)
def test_a_success_that_is_not_from_the_server_is_retried(content: bytes) -> None:
    with pytest.raises(ServerUnreachable, match="200"):
        read_reply(httpx2.Response(200, content=content))


@pytest.mark.parametrize(
    ("status", "is_retried"),
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
def test_only_temporary_problems_are_retried(status: int, is_retried: bool) -> None:
    with pytest.raises(ShiftbossError, match="no") as raised:
        read_reply(httpx2.Response(status, json=problem_of(errors.Conflict("no"))))
    assert isinstance(raised.value, ServerUnreachable) is is_retried
    assert isinstance(raised.value, errors.Conflict) is not is_retried


@pytest.mark.parametrize("status", [200, 201])
def test_a_success_is_not_retried(status: int) -> None:
    assert read_reply(httpx2.Response(status, json={})) == ({}, b"{}")


@pytest.mark.parametrize("status", [302, 400, 401, 403, 404, 409, 422, 502])
@pytest.mark.parametrize("body", [{}, {"code": "teapot"}, {"code": "error"}, {"code": 404}, []])
def test_a_refusal_that_is_not_from_a_shiftboss_server_is_retried(
    status: int, body: object
) -> None:
    with pytest.raises(ServerUnreachable, match=str(status)):
        read_reply(httpx2.Response(status, json=body))


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, 0.0),
        ("0", 0.0),
        ("7", 7.0),
        ("999999999", RETRY_AFTER_SECONDS_MAX),
        ("9" * 5000, 0.0),
        ("-1", 0.0),
        ("1.5", 0.0),
        ("", 0.0),
        ("²", 0.0),
        ("Wed, 21 Oct 2026 07:28:00 GMT", 0.0),
    ],
)
def test_retry_after_is_obeyed_within_limits(value: str | None, seconds: float) -> None:
    assert retry_after(value) == seconds


def test_an_answer_without_the_expected_members_is_not_recognized() -> None:
    response = httpx2.Response(200, json={"registered": True})
    assert read_reply(response, "registered").answer == {"registered": True}
    with pytest.raises(UnrecognizedReply, match="200"):
        read_reply(response, "registered", "packet_id")


@pytest.mark.parametrize(
    ("status", "kind"),
    [(404, errors.NotFound), (409, errors.Conflict), (422, errors.InvalidRequest)],
)
def test_an_unknown_error_code_is_raised_by_its_status(
    status: int, kind: type[ShiftbossError]
) -> None:
    problem = {"type": "urn:shiftboss:later", "code": "later", "detail": "not so"}
    with pytest.raises(kind, match="not so") as raised:
        read_reply(httpx2.Response(status, json=problem))
    assert type(raised.value) is kind


@pytest.mark.parametrize("swarm_id", ["", "a/b", "../x", "a?b", "a b", "a\n", "é"])
def test_a_swarm_id_cannot_lead_to_another_path(swarm_id: str) -> None:
    with pytest.raises(errors.InvalidRequest) as refused:
        swarm_path(swarm_id, "status")
    assert refused.value.field == "swarm_id"


def test_a_connection_error_names_the_server() -> None:
    with (
        pytest.raises(ServerUnreachable, match=r"http://127\.0\.0\.1:1.*refused"),
        connection_errors("http://127.0.0.1:1"),
    ):
        raise httpx2.ConnectError("refused")
