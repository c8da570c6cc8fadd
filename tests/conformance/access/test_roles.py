"""The table of roles and requests in the reference, every cell of it against the server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tools.roles_table import REFERENCE, roles_table, table_in

from shiftboss.server.mcp.tools import TOOLS
from tests.in_process import OPERATOR_TOKEN, InProcessReply, InProcessServer

pytestmark = pytest.mark.requirement("OWN-06")

_NOBODY = "anybody"
_MESSAGE = {
    "worker_id": "w1",
    "timestamp": "2026-01-05T10:00:00Z",
    "payload": {},
}


def _rows() -> Iterator[tuple[str, dict[str, str]]]:
    head, _, *rows = table_in(REFERENCE.read_text()).splitlines()
    columns = [cell.strip() for cell in head.strip("|").split("|")]
    for row in rows:
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        yield cells[0].strip("`"), dict(zip(columns[2:], cells[2:], strict=True))


_TABLE = list(_rows())
_CELLS = [
    pytest.param(request, role, cell, id=f"{request} {role}")
    for request, cells in _TABLE
    for role, cell in cells.items()
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessServer]:
    with InProcessServer(tmp_path_factory.mktemp("roles") / "shiftboss.db") as it:
        yield it


@pytest.fixture(scope="module")
def tokens(server: InProcessServer) -> dict[str, str | None]:
    """A token of each role."""
    roles = [role for role in _TABLE[0][1] if role != _NOBODY]
    made: dict[str, str | None] = {role: server.create_token(f"one-{role}", role) for role in roles}
    return made | {_NOBODY: None}


def is_refused(reply: InProcessReply) -> bool:
    """For its role, and not for what the request says, which is nothing sensible."""
    if reply.status != 403:
        return False
    refusal = reply.answer
    assert refusal["code"] == "forbidden"
    if refusal["field"] == "Shiftboss-Operator":
        return True
    assert refusal["field"] == "Authorization"
    assert refusal["permission"]
    return True


def ask(server: InProcessServer, request: str, token: str | None) -> InProcessReply:
    """A request that is not valid: it is refused for the role before anybody looks at it."""
    method, path = request.replace("{swarm_id}", "login").split(" ", 1)
    path, _, note = path.partition(",")
    if path == "/changes":  # it has no end; HEAD is admitted like GET
        return server.run(server.send("HEAD", path, None, token))
    if method == "GET":
        return server.get(f"{path}?follow=false", token)
    if path == "/messages":
        return server.post(path, _MESSAGE | (_ASSIGN if note else {"type": "progress"}), token)
    return server.post(path, "not an object", token)


_ASSIGN = {
    "type": "assign",
    "task_id": "T1",
    "spec_path": "s",
    "worktree_path": "/w",
    "timeout_seconds": 60,
}


def test_the_table_of_the_reference_is_generated() -> None:
    """`python -m tools.roles_table` writes it."""
    assert table_in(REFERENCE.read_text()) == roles_table()


@pytest.mark.parametrize(("request_line", "role", "cell"), _CELLS)
def test_a_cell_of_the_table(
    server: InProcessServer,
    tokens: dict[str, str | None],
    request_line: str,
    role: str,
    cell: str,
) -> None:
    reply = ask(server, request_line, tokens[role])
    assert is_refused(reply) == (cell == "no"), reply
    assert reply.status != 401
    if cell == "yes":
        assert reply.status < 500, reply


def _tool_cells() -> Iterator[Any]:
    by_path = dict(_TABLE)
    reports = {"swarm_packet_complete": "complete"}
    for tool in TOOLS:
        report = reports.get(tool, tool.removeprefix("swarm_"))
        path = next(
            path
            for path in (
                f"POST /bus/{tool}",
                "POST /swarm/create" if tool == "swarm_create" else "",
                "GET /swarm/{swarm_id}/status" if tool == "swarm_status" else "",
                f"POST /swarm/{{swarm_id}}/{report}",
            )
            if path in by_path
        )
        yield pytest.param(tool, by_path[path], id=tool)


@pytest.mark.parametrize(("tool", "cells"), list(_tool_cells()))
def test_a_tool_is_refused_to_the_same_roles_as_its_request(
    server: InProcessServer, tokens: dict[str, str | None], tool: str, cells: dict[str, str]
) -> None:
    call = {"name": tool, "arguments": {"no_such_member": 1}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    for role, cell in cells.items():
        accept = "application/json, text/event-stream"
        reply = server.post("/mcp", body, tokens[role], accept=accept)
        result = reply.answer["result"]
        assert result["isError"]
        code = result["structuredContent"]["code"]
        assert code == ("forbidden" if cell == "no" else "invalid_request"), (tool, role)


def test_no_tool_answers_with_a_token() -> None:
    """What a tool answers is kept in transcripts."""
    assert not [tool for tool in TOOLS.values() if "token" in tool.answer.model_fields]


def test_the_operators_token_is_good_for_everything(server: InProcessServer) -> None:
    assert not [row for row, _ in _TABLE if is_refused(ask(server, row, OPERATOR_TOKEN))]


def test_a_refusal_says_which_permission_is_missing(tmp_path: Path) -> None:
    with InProcessServer(tmp_path / "s.db") as server:
        token = server.create_token("reader", "read-only")
        refusal = server.bus("add_task", token, bead_id="T1", title="T1")
    assert refusal.status == 403
    assert (refusal.answer["permission"], refusal.answer["role"]) == ("spawn", "read-only")
    assert refusal.answer["success"] is False, "as the bus protocol puts a refusal"
