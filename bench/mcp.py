"""MCP calls compared with plain HTTP and with the SDK alone; memory of a parked MCP poll."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from statistics import median

from bench.figures import Figure
from bench.mcp_load import Connection, call_request, connect, http_request
from bench.running import LOAD_SECONDS_MAX, Server, shiftboss

ROUNDS = 3
CONNECTIONS = 16
CALLS = {"http": 16_000, "plain": 16_000, "sdk": 1_600}
POLLS = 2_000
PARK_SECONDS_MAX = 60


def run(folder: Path, rounds: int = ROUNDS) -> list[Figure]:
    with shiftboss(folder / "mcp.db") as server:
        results = [{kind: _rate(kind, server) for kind in CALLS} for _ in range(rounds)]
    with shiftboss(folder / "mcp-parked.db") as server:
        kilobytes = asyncio.run(_parked_kilobytes(server))
    rates = {kind: median(result[kind] for result in results) for kind in CALLS}
    to_sdk = median(result["plain"] / result["sdk"] for result in results)
    to_http = median(result["plain"] / result["http"] for result in results)
    return [
        Figure("heartbeats per second over HTTP", rates["http"], ""),
        Figure("heartbeats per second over MCP", rates["plain"], ""),
        Figure("heartbeats per second through the SDK", rates["sdk"], ""),
        Figure("MCP calls / calls through the SDK", to_sdk, "", at_least=5),
        Figure("MCP calls / HTTP calls", to_http, ""),
        Figure(f"memory of a parked MCP poll, {POLLS:,} parked", kilobytes, "kB", at_most=40),
    ]


def _rate(kind: str, server: Server) -> float:
    arguments = [kind, server.url, str(CONNECTIONS), str(CALLS[kind])]
    process = subprocess.run(
        [sys.executable, "-m", "bench.mcp_load", *arguments],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=LOAD_SECONDS_MAX,
    )
    return float(process.stdout)


async def _parked_kilobytes(server: Server) -> float:
    first = await connect(server.url)
    for number in range(POLLS):
        register = http_request(server.url, "/bus/register_worker", {"name": f"w-{number}"})
        await first.send(register)
    await _polling(first, server.url)
    before = server.memory_megabytes()
    parked = [await _park(server.url, number) for number in range(POLLS)]
    async with asyncio.timeout(PARK_SECONDS_MAX):
        while await _polling(first, server.url) < POLLS:
            pass
    after = server.memory_megabytes()
    for connection in parked:
        connection.transport.abort()
    return (after - before) * 1000 / POLLS


async def _park(url: str, number: int) -> Connection:
    connection = await connect(url)
    connection.send(call_request(url, "poll_task", {"name": f"w-{number}", "timeout_ms": 600_000}))
    return connection


async def _polling(connection: Connection, url: str) -> int:
    """How many workers have a parked poll."""
    status = json.loads(await connection.send(http_request(url, "/bus/get_status", {})))
    return sum(worker["status"] == "polling" for worker in status["workers"])
