"""Clients that people use, against the real server: no login, no network, no model but a script."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from shiftboss.server.mcp.tools import TOOLS
from tests.client import Client
from tests.e2e.agents.npm import INSTALL_SECONDS, Program
from tests.e2e.agents.process_groups import group, run_group
from tests.e2e.agents.real_agents import CLAUDE_CODE
from tests.e2e.agents.scripted_model import ScriptedModel, Step, UseTool, speaking
from tests.running import RunningServer
from tests.waiting import wait_until

pytestmark = pytest.mark.timeout(INSTALL_SECONDS + 180)

INSPECTOR = "@modelcontextprotocol/inspector@2.12.0"
CONFORMANCE = "@modelcontextprotocol/conformance@0.2.0-alpha.12"


# The scenarios that need no special tools, resources or prompts, by revision.
SCENARIOS = {
    "2025-11-25": (
        "server-initialize",
        "ping",
        "tools-list",
        "resources-list",
        "prompts-list",
        "dns-rebinding-protection",
    ),
    "2026-07-28": (
        "tools-list",
        "resources-list",
        "prompts-list",
        "dns-rebinding-protection",
        "server-sse-multiple-streams",
        "caching",
        "http-header-validation",
        "sep-2164-resource-not-found",
    ),
}


@pytest.mark.requirement("BUS-01")
@pytest.mark.parametrize("transport", ["http", "stdio"])
def test_the_inspector_lists_the_tools_without_complaint(
    server: RunningServer, tmp_path: Path, transport: str
) -> None:
    inspector = Program(INSPECTOR)
    target = ["--config", str(config(server, tmp_path, transport)), "--server", "claude-bus"]
    done = run_group(
        inspector.argv("mcp-inspector", "--cli", *target, "--method", "tools/list", "--strict"),
        30,
        environment=inspector.environment(HOME=str(tmp_path), MCP_INSPECTOR_SECRET_STORE="memory"),
    )
    assert done.returncode == 0, done.stderr
    # Where it keeps secrets is its own affair; it says so on every start.
    lines = [line for line in done.stderr.splitlines() if not line.startswith("[mcp-inspector]")]
    assert lines == []
    assert {tool["name"] for tool in json.loads(done.stdout)["tools"]} == set(TOOLS)


@pytest.mark.requirement("BUS-01")
@pytest.mark.parametrize("revision", SCENARIOS)
def test_the_conformance_suite_passes(server: RunningServer, tmp_path: Path, revision: str) -> None:
    suite = Program(CONFORMANCE)
    where = ["--url", f"{server.url}/mcp", "--spec-version", revision, "--suite", "all"]
    # Scenarios that need tools made for them fail, so the exit code says nothing.
    done = run_group(
        suite.argv("conformance", "server", *where, "--output-dir", str(tmp_path)),
        60,
        environment=suite.environment(),
    )
    statuses = {scenario_of(path): statuses_in(path) for path in tmp_path.rglob("checks.json")}
    for scenario in SCENARIOS[revision]:
        assert "SUCCESS" in statuses[scenario], (scenario, done.stdout)
        assert "FAILURE" not in statuses[scenario], (scenario, done.stdout)


def scenario_of(checks: Path) -> str:
    """The name of the folder, without its timestamp."""
    found = re.fullmatch(r"server-(.+)-\d{4}-\d\d-\d\dT.*", checks.parent.name)
    assert found, checks
    return found[1]


def statuses_in(checks: Path) -> set[str]:
    return {check["status"] for check in json.loads(checks.read_text())}


@pytest.mark.requirement("BUS-01", "BUS-03", "BUS-05", "BUS-06")
@pytest.mark.parametrize("transport", ["http", "stdio"])
def test_claude_code_registers_polls_acknowledges_and_reports_done(
    server: RunningServer, client: Client, tmp_path: Path, transport: str
) -> None:
    claude = Program(CLAUDE_CODE)
    with speaking(WORK) as model:
        argv, variables = command(server, tmp_path, transport), surroundings(model, tmp_path)
        with group(
            claude.argv("claude", *argv),
            environment=claude.environment(**variables),
            folder=tmp_path,
        ) as process:
            wait_until(lambda: worker(client).get("status") == "polling", "a poll", 60)
            client.post("/bus/add_task", {"bead_id": "task-123", "title": "Implement login"})
            client.post("/bus/submit_task", {"bead_id": "task-123"})
            out, err = process.communicate(timeout=60)
    assert process.returncode == 0, out + err
    registered, polled, acknowledged, done = map(document, model.results)
    assert registered == {"success": True, "worker": "z.ai1", "message": "Registered"}
    assert polled["task"]["title"] == "Implement login"
    assert (acknowledged["success"], acknowledged["worker"]) == (True, "z.ai1")
    assert done == {"success": True, "bead_id": "task-123"}
    task = client.post("/bus/show_task", {"bead_id": "task-123"}).json()
    assert task["status"] == "done"
    assert worker(client)["status"] == "idle"


def document(result: str) -> dict[str, Any]:
    """The tool's result; the agent may add its own remarks for the model."""
    found: dict[str, Any] = json.JSONDecoder().raw_decode(result)[0]
    return found


def _bus(tool: str, **arguments: object) -> UseTool:
    return UseTool(f"mcp__claude-bus__{tool}", arguments)


def _task(poll_answer: str) -> str:
    bead_id: str = document(poll_answer)["task"]["bead_id"]
    return bead_id


WORK: list[Step] = [
    lambda _last: _bus("register_worker", name="z.ai1"),
    lambda _last: _bus("poll_task", name="z.ai1", timeout_ms=30000),
    lambda polled: _bus("ack_task", name="z.ai1", bead_id=_task(polled)),
    lambda acked: _bus("worker_done", bead_id=document(acked)["bead_id"]),
]


def config(server: RunningServer, folder: Path, transport: str) -> Path:
    """The file that tells clients where the bus is."""
    bus: dict[str, Any] = {"type": "http", "url": f"{server.url}/mcp"}
    if transport == "stdio":
        arguments = ["-m", "shiftboss.cli.main", "mcp", "--server", server.url]
        bus = {"type": "stdio", "command": sys.executable, "args": arguments}
    path = folder / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"claude-bus": bus}}))
    return path


def command(server: RunningServer, folder: Path, transport: str) -> list[str]:
    options = ["--mcp-config", str(config(server, folder, transport)), "--strict-mcp-config"]
    options += ["--allowedTools", "mcp__claude-bus__*", "--model", "claude-sonnet-4-5"]
    return ["-p", "Work for the bus.", *options, "--output-format", "stream-json", "--verbose"]


def surroundings(model: ScriptedModel, folder: Path) -> dict[str, str]:
    """Its own home folder, and no model but the script."""
    return {
        "HOME": str(folder),
        "CLAUDE_CONFIG_DIR": str(folder / "config"),
        "ANTHROPIC_BASE_URL": model.url,
        "ANTHROPIC_API_KEY": "sk-of-nobody",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "ENABLE_TOOL_SEARCH": "false",
    }


def worker(client: Client) -> dict[str, Any]:
    """The status of the only worker; None before it has registered."""
    workers: list[dict[str, Any]] = client.post("/bus/get_status", {}).json()["workers"]
    return workers[0] if workers else {}
