"""The module names of the document, and its way to start the server."""

from __future__ import annotations

import importlib
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.swarms.packets import SWARM
from tests.acceptance.worker.workers import method, run_script
from tests.client import Client
from tests.kill_with_parent import KillWithParent
from tests.running import RunningServer


@pytest.mark.requirement("SW-02", "SW-03")
@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("", ["SwarmWorker", "get_backend", "BACKENDS", "register_backend", "RetryPolicy"]),
        ("", ["WorkerStatus", "SwarmCreateResponse"]),
        (".worker", ["SwarmWorker"]),
        (
            ".backends",
            [
                "get_backend",
                "BACKENDS",
                "register_backend",
                "CoordinationBackend",
                "MCPStreamableHTTPBackend",
            ],
        ),
        (".backends.base", ["CoordinationBackend", "BACKENDS", "register_backend", "get_backend"]),
        (".backends.mcp_streamable_http", ["MCPStreamableHTTPBackend"]),
        (
            ".retry",
            [
                "RetryPolicy",
                "classify_error",
                "ErrorCategory",
                "RECOVERABLE_ERRORS",
                "NON_RECOVERABLE_ERRORS",
            ],
        ),
        (".server", ["main"]),
        (".state", ["Store", "store_at"]),
        (
            ".protocol",
            [
                f"{report}{part}"
                for report in ("Register", "Progress", "Complete", "Error")
                for part in ("Request", "Response", "Answer")
            ]
            + ["SwarmCreateResponse", "WorkerStatus", "SwarmStatus"],
        ),
    ],
)
def test_every_documented_module_has_its_documented_names(module: str, names: list[str]) -> None:
    found = importlib.import_module(f"spellbook.coordination{module}")
    assert [name for name in names if not hasattr(found, name)] == []


@pytest.mark.requirement("SW-06", "SW-10")
def test_the_names_of_the_documented_modules_can_be_used(
    server: RunningServer, tmp_path: Path
) -> None:
    """In the words of a program that was written against the documented modules."""
    script = """
import asyncio, json, os
from pathlib import Path
from urllib.parse import urlsplit
from spellbook.coordination import SwarmWorker
from spellbook.coordination.backends import BACKENDS, CoordinationBackend, get_backend
from spellbook.coordination.backends import MCPStreamableHTTPBackend, register_backend
from spellbook.coordination.protocol import SwarmCreateResponse, SwarmStatus, WorkerStatus
from spellbook.coordination.retry import RetryPolicy

assert (RetryPolicy().max_retries, RetryPolicy().backoff_base) == (2, 30)
assert [RetryPolicy().get_retry_delay(attempt) for attempt in (1, 2, 3)] == [30, 60, 0]
assert RetryPolicy(max_retries=3, backoff_base=1, backoff_multiplier=3).get_retry_delay(3) == 9

address = urlsplit(os.environ["SHIFTBOSS_URL"])
backend = get_backend("mcp-streamable-http", {"host": address.hostname, "port": address.port})
assert (backend.host, backend.port) == (address.hostname, address.port)
assert backend.base_url == os.environ["SHIFTBOSS_URL"]
assert isinstance(backend, CoordinationBackend)
assert BACKENDS["mcp-streamable-http"] is MCPStreamableHTTPBackend
default = MCPStreamableHTTPBackend({})
assert (default.host, default.port, default.base_url) == (
    "127.0.0.1", 7432, "http://127.0.0.1:7432"
)

class Logged(MCPStreamableHTTPBackend):
    pass

register_backend("logged", Logged)
assert isinstance(get_backend("logged", {}), Logged)
assert get_backend({"backend": "logged", "port": 9}).port == 9

async def main():
    swarm_id = await get_backend("logged", {"port": address.port}).create_swarm(
        feature="sign-in", manifest_path="plan.json", auto_merge=False
    )
    worker = SwarmWorker(swarm_id, 1, "backend-api", worktree, 10)
    assert worker.checkpoint_path == (
        Path(worktree) / ".spellbook/checkpoints/packet-1-backend-api.json"
    )
    await worker.register()
    assert json.loads(worker.checkpoint_path.read_text())["event"] == "registered"
    status = SwarmStatus.model_validate(await backend.get_status(swarm_id))
    assert [type(one) for one in status.workers] == [WorkerStatus]
    assert status.workers[0].packet_name == "backend-api"

asyncio.run(main())
print(json.dumps(sorted(SwarmCreateResponse.model_fields)))
"""
    script = f"worktree = {str(tmp_path)!r}\n{script}"
    assert json.loads(run_script(script, server.url)) == [
        "auto_merge",
        "created_at",
        "endpoint",
        "notify_on_complete",
        "swarm_id",
    ]


@pytest.mark.requirement("SW-12")
def test_the_documented_command_starts_the_real_server(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "spellbook.coordination.server", "--port", "0"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    )
    killer = KillWithParent(process.pid)
    try:
        assert process.stdout is not None
        announced = re.match(r"listening on (http://127\.0\.0\.1:\d+)\b", process.stdout.readline())
        assert announced is not None
        client = Client(announced[1])
        client.create_swarm(swarm_id=SWARM)
        run_script(method(1, tmp_path / "worktree", announced[1]), announced[1])
        status = client.status(SWARM)
        client.close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.communicate()
        killer.release()
    assert (status["workers_registered"], status["workers_complete"]) == (1, 1)
    assert (status["workers_failed"], status["ready_for_merge"]) == (0, True)
    assert (tmp_path / ".shiftboss" / "shiftboss.db").is_file()


@pytest.mark.requirement("SW-12")
def test_a_public_address_without_a_token_is_refused(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "spellbook.coordination.server", "--port", "0", "--host", "0.0.0.0"],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if name != "SHIFTBOSS_TOKEN"},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 1
    assert "token" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.requirement("SW-02")
def test_importing_the_worker_does_not_load_the_server() -> None:
    script = """
import json, sys
import shiftboss
first = sorted(name for name in ("httpx2", "pydantic") if name in sys.modules)
from spellbook.coordination import SwarmWorker
then = sorted(name for name in ("shiftboss.server", "uvicorn", "starlette") if name in sys.modules)
print(json.dumps([first, then]))
"""
    assert json.loads(run_script(script, "")) == [[], []]
