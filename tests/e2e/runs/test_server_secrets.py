"""The server of a run on PostgreSQL: the password is in no command line."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx2
import psutil
import pytest

from shiftboss.orchestrator.run.progress import Progress
from shiftboss.orchestrator.run.server_process import ServerOptions, ServerProcess

pytestmark = pytest.mark.requirement("OWN-01")


def test_the_address_of_the_database_is_in_no_command_line(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The address may contain a password, and every user can read the command lines of others."""
    monkeypatch.chdir(tmp_path)

    async def run() -> None:
        options = ServerOptions(None, postgres_url, tmp_path, tmp_path / "log", own=True)
        server = ServerProcess(options, Progress())
        address = await server.start()
        try:
            assert httpx2.get(f"{address}/health", trust_env=False).status_code == 200
            (process,) = [
                child for child in psutil.Process().children() if "serve" in child.cmdline()
            ]
            assert postgres_url not in " ".join(process.cmdline())
        finally:
            await server.stop()

    asyncio.run(run())
