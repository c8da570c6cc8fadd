"""The complete worker example of the bus document, over MCP with the official client.

    shiftboss serve &
    shiftboss task add task-123 --title "Implement login"
    shiftboss task submit task-123
    python examples/mcp_worker.py z.ai1

Ctrl-C stops it. An agent such as Claude Code makes the same calls as tools.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

from httpx2 import HTTPError
from mcp import Client, MCPError

SERVER = os.environ.get("SHIFTBOSS_URL", "http://127.0.0.1:7432")


async def execute(title: str) -> None:
    """The work itself. An error fails the task."""
    if "impossible" in title:
        raise ValueError(f"cannot do it: {title}")
    await asyncio.sleep(0)


async def call(client: Client, tool: str, **arguments: object) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    answer: dict[str, Any] = result.structured_content or {}
    return answer


async def start_worker(name: str) -> None:
    async with Client(f"{SERVER}/mcp") as client:
        await call(client, "register_worker", name=name)
        while True:
            result = await call(client, "poll_task", name=name, timeout_ms=30000)
            if "error" in result:
                return  # connect and register again
            if result.get("timeout"):
                continue
            if task := result.get("task"):
                bead_id = task["bead_id"]
                await call(client, "ack_task", name=name, bead_id=bead_id)
                print(f"{bead_id}: {task['title']}", flush=True)
                try:
                    await execute(task["title"])
                    await call(client, "worker_done", bead_id=bead_id)
                except ValueError as error:
                    await call(client, "task_failed", bead_id=bead_id, reason=str(error))


async def work(name: str) -> None:
    """Reconnect when the server restarts. The server loses nothing."""
    while True:
        try:
            await start_worker(name)
        except* (OSError, MCPError, HTTPError) as group:
            print(f"the server is not reachable: {group.exceptions[0]}", file=sys.stderr)
        await asyncio.sleep(1)


if __name__ == "__main__":
    try:
        asyncio.run(work(sys.argv[1]))
    except KeyboardInterrupt:
        sys.exit(130)
