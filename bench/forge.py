"""A simulated forge with the API of GitHub, whose runs never end. It counts the requests.

`python -m bench.forge` prints its address and serves until it is stopped.
"""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections import defaultdict
from itertools import pairwise
from typing import Any

import uvicorn
from starlette.types import Receive, Scope, Send

ANSWER_SECONDS = 0.02


class Forge:
    """Plain ASGI, so that it costs little compared with what is measured."""

    def __init__(self) -> None:
        self.asked: defaultdict[str, list[float]] = defaultdict(list)
        self.at_once = 0
        self.at_once_max = 0

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        self.at_once += 1
        self.at_once_max = max(self.at_once, self.at_once_max)
        try:
            await self._answer(scope, send)
        finally:
            self.at_once -= 1

    async def _answer(self, scope: Scope, send: Send) -> None:
        if scope["path"] == "/figures":
            body, status = self._figures(), 200
        else:
            sha = scope["query_string"].decode().partition("head_sha=")[2][:40]
            self.asked[sha].append(time.monotonic())
            knows = any(name == b"if-none-match" for name, _ in scope["headers"])
            body, status = (b"", 304) if knows else (_run(sha), 200)
            await asyncio.sleep(ANSWER_SECONDS)
        headers = [(b"content-type", b"application/json"), (b"etag", b'"the-same"')]
        headers.append((b"content-length", str(len(body)).encode()))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _figures(self) -> bytes:
        """`closest` is the shortest time between two questions about one commit."""
        gaps = [
            later - earlier for times in self.asked.values() for earlier, later in pairwise(times)
        ]
        requests = sum(len(times) for times in self.asked.values())
        figures = {
            "requests": requests,
            "commits": len(self.asked),
            "closest": min(gaps, default=0.0),
            "at_once": self.at_once_max,
        }
        return json.dumps(figures).encode()


def _run(sha: str) -> bytes:
    row: dict[str, Any] = {
        "id": int(sha[:12], 16),
        "name": "CI",
        "run_number": int(sha[:8], 16),
        "run_attempt": 1,
        "head_sha": sha,
        "head_branch": "main",
        "event": "push",
        "path": ".github/workflows/ci.yml",
        "html_url": "http://127.0.0.1/run",
        "created_at": "2026-01-09T10:00:00Z",
        "updated_at": "2026-01-09T10:00:00Z",
        "status": "in_progress",
        "conclusion": None,
    }
    return json.dumps({"total_count": 1, "workflow_runs": [row]}).encode()


def main() -> None:
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen(2048)
    print(f"http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
    config = uvicorn.Config(Forge(), access_log=False, log_level="warning", lifespan="off")
    uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main()
