"""The access log and the audit log of a server, on both paths of a request."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import httpx2
import pytest

from shiftboss.server.http.access_log import REFUSALS_LOGGED_MAX
from shiftboss.server.http.app import App
from shiftboss.system.logs import ACCESS_LOGGER, AUDIT_LOGGER, Logs, LogSettings
from tests.listener import Listener, coordinating

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("OWN-06")]

T = TypeVar("T")
TOKEN, OPERATOR = "secret-of-the-team", "secret-of-the-operator"
FAST_AND_PLAIN = pytest.mark.parametrize("fast_path", [True, False])


class Answers:
    """Sends requests to an application and returns the lines that it has logged."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "log"
        self.audit = folder / "audit"

    def lines(self, file: Path) -> list[dict[str, Any]]:
        return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.fixture
def answers(tmp_path: Path) -> Iterator[Answers]:
    loggers = [logging.getLogger(name) for name in ("", ACCESS_LOGGER, AUDIT_LOGGER)]
    levels = [logger.level for logger in loggers]
    yield Answers(tmp_path)
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)


async def send(
    answers: Answers,
    requests: list[tuple[str, str, dict[str, str], object]],
    *,
    fast_path: bool,
    access: bool = True,
    folder: Path,
) -> list[httpx2.Response]:
    return await ask_app(
        answers,
        lambda url: _send_all(url, requests),
        fast_path=fast_path,
        access=access,
        folder=folder,
    )


async def ask_app(
    answers: Answers, ask: Callable[[str], T], *, fast_path: bool, access: bool, folder: Path
) -> T:
    logs = Logs(LogSettings("info", "json", answers.file, answers.audit, access))
    try:
        async with coordinating(folder / "shiftboss.db") as coordinator:
            app = App(coordinator, TOKEN, OPERATOR)
            await coordinator.settings.read()
            async with Listener(app, fast_path=fast_path).listening() as listener:
                url = f"http://127.0.0.1:{listener.port}"
                return await asyncio.to_thread(ask, url)
    finally:
        logs.stop()


def _send_all(
    url: str, requests: list[tuple[str, str, dict[str, str], object]]
) -> list[httpx2.Response]:
    with httpx2.Client(base_url=url) as client:
        return [
            client.request(method, path, headers=headers, json=body)
            for method, path, headers, body in requests
        ]


BEARER = {"Authorization": f"Bearer {TOKEN}"}
AS_OPERATOR = BEARER | {"Shiftboss-Operator": OPERATOR}


@FAST_AND_PLAIN
async def test_every_request_has_a_line(answers: Answers, tmp_path: Path, fast_path: bool) -> None:
    requests: list[tuple[str, str, dict[str, str], object]] = [
        ("POST", "/bus/register_worker", BEARER, {"name": "w1"}),
        ("POST", "/bus/register_worker", BEARER, {"name": "w1"}),
        ("POST", "/bus/ack_task", BEARER, {"name": "w1", "bead_id": "t1"}),
        ("GET", "/swarms?token=swordfish", BEARER, None),
        ("POST", "/bus/nothing", BEARER | {"X-Request-Id": "mine-7"}, {}),
    ]
    replies = await send(answers, requests, fast_path=fast_path, folder=tmp_path)
    lines = [line for line in answers.lines(answers.file) if line["logger"] == ACCESS_LOGGER]
    assert [(line["operation"], line["status"], line.get("code")) for line in lines] == [
        ("/bus/register_worker", 200, None),
        ("/bus/register_worker", 200, None),
        ("/bus/ack_task", 409, "task_mismatch"),
        ("/swarms", 200, None),
        ("/bus/nothing", 404, "unknown_path"),
    ]
    assert {line["actor"] for line in lines} == {"shared"}
    assert {line["client"] for line in lines} == {"127.0.0.1"}
    assert (lines[2]["name"], lines[2]["task"]) == ("w1", "t1")
    assert lines[4]["request_id"] == replies[4].headers["x-request-id"] == "mine-7"
    assert "x-request-id" not in replies[0].headers
    text = answers.file.read_text()
    assert TOKEN not in text
    assert "swordfish" not in text


@FAST_AND_PLAIN
async def test_without_the_access_log_only_changes_and_refusals_are_logged(
    answers: Answers, tmp_path: Path, fast_path: bool
) -> None:
    pause = {"swarm_id": "default", "reason": "lunch"}
    requests: list[tuple[str, str, dict[str, str], object]] = [
        ("POST", "/bus/register_worker", BEARER, {"name": "w1"}),
        ("POST", "/operator/release_repo", AS_OPERATOR, {"repo": "sdk", "reason": "lunch"}),
        ("POST", "/operator/list_tokens", AS_OPERATOR, {}),
        ("POST", "/operator/release_repo", BEARER, pause),
        ("POST", "/bus/poll_task", {"Authorization": "Bearer guess-1"}, {"name": "w1"}),
    ]
    await send(answers, requests, fast_path=fast_path, access=False, folder=tmp_path)
    lines = answers.lines(answers.audit)
    assert [(line["message"], line["operation"], line["status"]) for line in lines] == [
        ("change", "/operator/release_repo", lines[0]["status"]),
        ("refused", "/operator/release_repo", 403),
        ("refused", "/bus/poll_task", 401),
    ]
    callers = [(line["actor"], line.get("role")) for line in lines]
    assert callers == [("operator", "operator"), ("unknown", None), ("unknown", None)]
    assert lines == [line for line in answers.lines(answers.file) if "operation" in line]
    assert not {TOKEN, OPERATOR, "guess-1"} & set(answers.file.read_text().split('"'))


@FAST_AND_PLAIN
async def test_a_refusal_names_the_token_that_was_refused(
    answers: Answers, tmp_path: Path, fast_path: bool
) -> None:
    def ask(url: str) -> None:
        made = httpx2.post(
            f"{url}/operator/create_token",
            headers=AS_OPERATOR,
            json={"name": "rita", "role": "read-only"},
        )
        as_rita = {
            "Authorization": f"Bearer {made.json()['token']}",
            "Accept": "application/json, text/event-stream",
        }
        cancel = {"bead_id": "t1"}
        call = {"name": "cancel_task", "arguments": cancel}
        tool = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
        for path, body in (("/operator/retire_key", {}), ("/bus/cancel_task", cancel)):
            assert httpx2.post(url + path, headers=as_rita, json=body).status_code == 403
        assert "forbidden" in httpx2.post(f"{url}/mcp", headers=as_rita, json=tool).text

    await ask_app(answers, ask, fast_path=fast_path, access=False, folder=tmp_path)
    refused = [line for line in answers.lines(answers.audit) if line["message"] == "refused"]
    assert [(line["actor"], line["role"], line["operation"], line["code"]) for line in refused] == [
        ("rita", "read-only", "/operator/retire_key", "forbidden"),
        ("rita", "read-only", "/bus/cancel_task", "forbidden"),
        ("rita", "read-only", "/mcp cancel_task", "forbidden"),
    ]
    changes = [line for line in answers.lines(answers.audit) if line["message"] == "change"]
    assert [line["operation"] for line in changes] == ["/operator/create_token"]


async def test_a_flood_of_wrong_tokens_is_counted(answers: Answers, tmp_path: Path) -> None:
    guesses: list[tuple[str, str, dict[str, str], object]] = [
        ("POST", "/bus/poll_task", {"Authorization": f"Bearer guess-{number}"}, {"name": "w"})
        for number in range(REFUSALS_LOGGED_MAX + 20)
    ]
    await send(answers, guesses, fast_path=True, folder=tmp_path, access=False)
    messages = [line["message"] for line in answers.lines(answers.audit)]
    assert messages == ["refused"] * REFUSALS_LOGGED_MAX + [
        "more requests are refused; they are counted"
    ]


async def test_an_id_that_is_not_well_formed_is_replaced(answers: Answers, tmp_path: Path) -> None:
    evil = BEARER | {"X-Request-Id": "a b;c"}
    (reply,) = await send(
        answers, [("GET", "/swarms", evil, None)], fast_path=True, folder=tmp_path
    )
    assert "x-request-id" not in reply.headers
    (line,) = [line for line in answers.lines(answers.file) if line["logger"] == ACCESS_LOGGER]
    assert len(line["request_id"]) == 16


@FAST_AND_PLAIN
async def test_a_refusal_says_who_was_refused(
    answers: Answers, tmp_path: Path, fast_path: bool
) -> None:
    """Also of a tool, whose refusal is in the body of a response with the status 200."""
    create = {"name": "eve", "role": "read-only"}
    task = {"bead_id": "T1", "title": "T1"}
    params = {"name": "add_task", "arguments": task}
    tool = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}

    async def refused(token: str) -> None:
        bearer = {"Authorization": f"Bearer {token}"}
        accepts = bearer | {"Accept": "application/json, text/event-stream"}
        requests: list[tuple[str, str, dict[str, str], object]] = [
            ("POST", "/bus/add_task", bearer, task),
            ("POST", "/mcp", accepts, tool),
        ]
        await send(answers, requests, fast_path=fast_path, access=False, folder=tmp_path)

    made = await send(
        answers,
        [("POST", "/operator/create_token", AS_OPERATOR, create)],
        fast_path=fast_path,
        access=False,
        folder=tmp_path,
    )
    await refused(made[0].json()["token"])
    lines = [line for line in answers.lines(answers.audit) if line["message"] == "refused"]
    assert [(line["operation"], line.get("actor"), line.get("role")) for line in lines] == [
        ("/bus/add_task", "eve", "read-only"),
        ("/mcp add_task", "eve", "read-only"),
    ]
