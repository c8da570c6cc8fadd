"""The bus as an MCP client sees it: the documented calls and answers, over every surface."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from shiftboss.server.operations.bus import BUS_OPERATIONS
from tests.acceptance.mcp.mcp_clients import (
    SURFACES,
    Bus,
    Surface,
    accepted,
    connected,
    said,
    status_of,
)
from tests.client import Client
from tests.running import RunningServer
from tests.waiting import eventually

pytestmark = pytest.mark.anyio
every_surface = pytest.mark.parametrize("surface", SURFACES)

# The arguments of the document's own calls.
THE_DOCUMENTS_TOOLS = {
    "register_worker": {"name"},
    "poll_task": {"name", "timeout_ms"},
    "submit_task": {"bead_id"},
    "ack_task": {"name", "bead_id"},
    "worker_done": {"bead_id"},
    "task_failed": {"bead_id", "reason"},
    "get_status": set(),
    "reset_worker": {"worker_name"},
    "retry_task": {"bead_id"},
    "swarm_spawn_subtask": {
        "bead_id",
        "files",
        "subtask_title",
        "subtask_description",
        "dependencies_completed",
    },
    "swarm_complete": {"bead_id", "files_touched", "summary"},
}
READING_TOOLS = {
    "get_status",
    "show_task",
    "find_task",
    "why_task",
    "list_tasks",
    "list_questions",
    "swarm_status",
    "show_handoff",
    "list_scope_requests",
    "who_owns",
    "show_receipt",
    "export_receipt",
    "list_receipts",
    "list_claims",
    "show_policy",
    "list_policies",
    "swarm_plan",
    "get_ci_instructions",
    "get_worker_prompt",
    "can_spawn",
    "list_repos",
    "show_checkpoint",
    "show_ci",
    "build_context",
    "show_usage",
    "list_landable",
}
SWARM_TOOLS = {
    "swarm_create",
    "swarm_register",
    "swarm_progress",
    "swarm_packet_complete",
    "swarm_error",
    "swarm_status",
}


@pytest.fixture
def server(shared_server: RunningServer, shared_client: Client) -> RunningServer:
    """Of all tests of this module; each begins without a swarm."""
    return shared_server


@pytest.fixture
def client(shared_client: Client) -> Client:
    return shared_client


@pytest.mark.requirement("BUS-01")
@every_surface
async def test_the_tools_are_listed_with_the_documented_arguments(
    server: RunningServer, surface: Surface
) -> None:
    async with connected(server.url, surface) as bus:
        tools = {tool.name: tool for tool in (await bus.client.list_tools()).tools}
    bus_tools = {name for name, operation in BUS_OPERATIONS.items() if operation.is_tool}
    assert set(tools) == bus_tools | SWARM_TOOLS
    for name, arguments in THE_DOCUMENTS_TOOLS.items():
        schema = tools[name].input_schema
        assert arguments <= set(schema["properties"])
        assert set(schema.get("required", ())) <= arguments
    reading = {
        name for name, tool in tools.items() if tool.annotations and tool.annotations.read_only_hint
    }
    assert reading == READING_TOOLS


@pytest.mark.requirement("BUS-03", "BUS-04")
async def test_a_worker_gets_the_description_and_a_submit_says_whether_it_dispatched(
    server: RunningServer,
) -> None:
    async with connected(server.url, SURFACES[0]) as bus:
        unknown = await bus.refused("submit_task", bead_id="none")
        assert (unknown["dispatched"], unknown["error"]) == (False, "Unknown task: none")
        await bus.call("register_worker", name="z.ai1")
        await bus.call("add_task", bead_id="t", title="T", description="Sign it with RS256.")
        assert (await bus.call("submit_task", bead_id="t"))["dispatched"] is True
        again = await bus.call("submit_task", bead_id="t")
        assert (again["dispatched"], again["worker"], again["status"]) == (
            False,
            "z.ai1",
            "pending",
        )
        task = (await bus.call("poll_task", name="z.ai1"))["task"]
        assert task["description"] == "Sign it with RS256."
        await bus.call("ack_task", name="z.ai1", bead_id="t")
        assert (await bus.call("submit_task", bead_id="t"))["status"] == "executing"


@pytest.mark.requirement("BUS-01", "BUS-02", "BUS-03", "BUS-05", "BUS-06")
@every_surface
async def test_every_documented_answer_is_returned_as_written(
    server: RunningServer, client: Client, surface: Surface
) -> None:
    async with connected(server.url, surface) as bus:
        unknown = await bus.refused("poll_task", name="z.ai1", timeout_ms=30000)
        assert unknown["error"] == "Unknown worker: z.ai1 - call register_worker first"
        assert "success" not in unknown
        assert await bus.call("register_worker", name="z.ai1") == {
            "success": True,
            "worker": "z.ai1",
            "message": "Registered",
        }
        assert await bus.call("register_worker", name="z.ai1") == {
            "success": True,
            "worker": "z.ai1",
            "message": "Already registered",
        }
        assert await bus.call("poll_task", name="z.ai1", timeout_ms=1) == {
            "task": None,
            "timeout": True,
        }

        await bus.call("add_task", bead_id="task-123", title="Implement login")
        poll = asyncio.create_task(bus.call("poll_task", name="z.ai1", timeout_ms=30000))
        await status_becomes(client, "z.ai1", "polling")
        assert _of_document(await bus.call("submit_task", bead_id="task-123"), "epoch") == {
            "dispatched": True,
            "worker": "z.ai1",
            "bead_id": "task-123",
        }
        task = (await poll)["task"]
        assert task["bead_id"] == "task-123"
        assert task["title"] == "Implement login"
        assert isinstance(task["assigned_at"], int)

        mismatch = await bus.refused("ack_task", name="z.ai1", bead_id="task-124")
        assert (mismatch["success"], mismatch["error"]) == (False, "Task mismatch")
        ack = await bus.call("ack_task", name="z.ai1", bead_id="task-123")
        assert _of_document(ack, "epoch", "lease_expires_at") == {
            "success": True,
            "worker": "z.ai1",
            "bead_id": "task-123",
        }
        assert await bus.call("worker_done", bead_id="task-123") == {
            "success": True,
            "bead_id": "task-123",
        }

        await bus.call("add_task", bead_id="task-124", title="Build")
        await bus.call("submit_task", bead_id="task-124")
        await bus.call("ack_task", name="z.ai1", bead_id="task-124")
        failed = await bus.call("task_failed", bead_id="task-124", reason="Build failed")
        assert failed == {"success": True, "bead_id": "task-124", "status": "failed"}


@pytest.mark.requirement("BUS-07")
@every_surface
async def test_a_stuck_worker_and_its_task_can_be_seen_and_released(
    server: RunningServer, surface: Surface
) -> None:
    async with connected(server.url, surface) as bus:
        await bus.call("register_worker", name="z.ai1")
        await bus.call("add_task", bead_id="task-123", title="Implement login")
        await bus.call("submit_task", bead_id="task-123")
        await bus.call("ack_task", name="z.ai1", bead_id="task-123")
        (worker,) = (await bus.call("get_status"))["workers"]
        assert worker == {
            "name": "z.ai1",
            "status": "executing",
            "current_task": "task-123",
            "idle_seconds": 0,
        }
        released = await bus.call("reset_worker", worker_name="z.ai1")
        assert released["released"] == "task-123"
        await bus.call("ack_task", name="z.ai1", bead_id="task-123")
        retried = await bus.call("retry_task", bead_id="task-123")
        assert (retried["success"], retried["bead_id"]) == (True, "task-123")
        assert (await bus.call("poll_task", name="z.ai1"))["task"]["bead_id"] == "task-123"


@pytest.mark.requirement("BUS-01", "BUS-03", "BUS-06")
@every_surface
async def test_the_documented_worker_example_runs_over_mcp(
    server: RunningServer, client: Client, surface: Surface
) -> None:
    executed: list[str] = []

    async def execute(bead_id: str) -> None:
        executed.append(bead_id)
        if bead_id == "task-2":
            raise RuntimeError("Build failed")

    tasks = ("task-1", "task-2", "task-3")
    async with connected(server.url, surface) as bus:
        worker = asyncio.create_task(start_worker(bus, "z.ai1", execute, ends_after=len(tasks)))
        await status_becomes(client, "z.ai1", "polling")
        for bead_id in tasks:
            client.post("/bus/add_task", {"bead_id": bead_id, "title": bead_id})
            client.post("/bus/submit_task", {"bead_id": bead_id})
        await worker
        listed = (await bus.call("list_tasks"))["tasks"]
    assert executed == list(tasks)
    assert {task["bead_id"]: (task["status"], task["last_error"]) for task in listed} == {
        "task-1": ("done", None),
        "task-2": ("failed", "Build failed"),
        "task-3": ("done", None),
    }


async def start_worker(
    bus: Bus, name: str, execute: Callable[[str], Awaitable[None]], ends_after: int
) -> None:
    """The document's example, line by line; it ends after some tasks."""
    await bus.call("register_worker", name=name)
    while ends_after:
        result = await bus.call("poll_task", name=name, timeout_ms=30000)
        if result.get("timeout"):
            continue
        if result["task"]:
            bead_id = result["task"]["bead_id"]
            await bus.call("ack_task", name=name, bead_id=bead_id)
            try:
                await execute(bead_id)
                await bus.call("worker_done", bead_id=bead_id)
            except RuntimeError as error:
                await bus.call("task_failed", bead_id=bead_id, reason=str(error))
            ends_after -= 1


@pytest.mark.requirement("BUS-06")
@every_surface
async def test_a_call_repeated_with_its_id_gets_the_first_answer_again(
    server: RunningServer, surface: Surface
) -> None:
    async with connected(server.url, surface) as bus:
        await bus.call("register_worker", name="z.ai1")
        await bus.call("add_task", bead_id="task-1", title="One")
        await bus.call("submit_task", bead_id="task-1")
        await bus.call("ack_task", name="z.ai1", bead_id="task-1")
        first = await bus.repeated("toolu_01", "worker_done", bead_id="task-1")
        again = await bus.repeated("toolu_01", "worker_done", bead_id="task-1")
        other = await bus.repeated("toolu_02", "worker_done", bead_id="task-1")
    assert accepted(first) == accepted(again) == {"success": True, "bead_id": "task-1"}
    assert other.is_error
    assert said(other)["code"] in {"not_held", "task_ended"}


@pytest.mark.requirement("SW-13")
@every_surface
async def test_a_swarm_runs_from_creation_to_completion_over_mcp(
    server: RunningServer, surface: Surface
) -> None:
    swarm = {"swarm_id": "swarm-1"}
    packet = {**swarm, "packet_id": 1}
    async with connected(server.url, surface) as bus:
        unknown = await bus.refused("swarm_status", **swarm)
        assert (unknown["code"], unknown["field"]) == ("unknown_swarm", "swarm_id")
        created = await bus.call("swarm_create", **swarm, feature="Login")
        assert created["endpoint"] == f"{server.url}/swarm/swarm-1"
        await bus.call(
            "swarm_register",
            **packet,
            packet_name="backend-api",
            tasks_total=1,
            worktree="/path/to/worktree",
        )
        step = {"task_id": "task-1", "task_name": "Login", "tasks_total": 1}
        await bus.call("swarm_progress", **packet, **step, status="completed", tasks_completed=1)
        wrong = await bus.refused(
            "swarm_progress", **packet, **step, status="completed", tasks_completed=2
        )
        assert (wrong["code"], wrong["field"]) == ("invalid_request", "tasks_completed")
        done = await bus.call(
            "swarm_packet_complete",
            **packet,
            final_commit="def5678901",
            tests_passed=True,
            review_passed=True,
        )
        assert done["swarm_complete"] is True
        assert (await bus.call("swarm_status", **swarm))["status"] == "complete"


async def status_becomes(client: Client, name: str, status: str) -> None:
    """Asked over plain HTTP: the MCP client is busy waiting."""
    await eventually(lambda: status_of(client, name) == status, f"{name} is {status}")


def _of_document(answer: dict[str, Any], *further: str) -> dict[str, Any]:
    """The answer without our additional fields, which must be present."""
    assert set(further) <= set(answer)
    return {name: value for name, value in answer.items() if name not in further}
