"""A model that says what a script tells it, for agents that are run without one.

Speaks the interfaces that `model_dialects` knows, streamed. The step is counted from the
conversation in the request, so a request that is sent again gets the same words again.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.e2e.agents.model_dialects import Dialect, Said, UseTool, dialect_of

__all__ = ["ScriptedModel", "Step", "UseTool", "speaking"]

# Gets the text of the last tool result; the model uses a tool or replies with text.
Step = Callable[[str], Said]


class ScriptedModel:
    """`results` are the texts of all tool results that the agent has shown to the model; `asked`
    is the longest conversation that it was shown, as JSON."""

    def __init__(self, script: list[Step]) -> None:
        self._script = script
        self._name = uuid.uuid4().hex[:12]
        self.url = ""
        self.results: list[str] = []
        self.asked = ""

    def answer(self, dialect: Dialect, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """The events of the stream."""
        results, turns = list(dialect.results(request)), dialect.turns(request)
        if len(results) > len(self.results):
            self.results = results
        # The id of a tool's use comes back to us with the result and goes with the call to the
        # tool: the same for a request that is sent again, another for every other.
        return dialect.events(self._next(request, results, turns), f"{self._name}_{turns}")

    def _next(self, request: dict[str, Any], results: list[str], turns: int) -> Said:
        if not request.get("tools"):
            return "A title"  # agents also ask for a title
        self.asked = max(self.asked, json.dumps(request, ensure_ascii=False), key=len)
        if turns >= len(self._script):
            return "done"
        return self._script[turns](results[-1] if results else "")


@contextmanager
def speaking(script: list[Step]) -> Iterator[ScriptedModel]:
    """The model, served on its own port."""
    model = ScriptedModel(script)

    class Handler(_Handler):
        answer = model.answer

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        model.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield model
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    answer: Callable[[Dialect, dict[str, Any]], Iterator[dict[str, Any]]]

    def do_HEAD(self) -> None:
        self._send(b"", "application/json")

    def do_GET(self) -> None:
        self._send(b'{"object": "list", "data": [], "models": []}', "application/json")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        dialect = dialect_of(self.path.partition("?")[0])
        if dialect is None:
            self._send(b'{"input_tokens": 1}', "application/json")
            return
        events = type(self).answer(dialect, json.loads(body))
        frames = [dialect.frame(event) for event in events]
        self._send("".join(frames).encode(), "text/event-stream")

    def _send(self, body: bytes, content_type: str) -> None:
        self.send_response(200)
        self.send_header("content-type", content_type)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Suppress the log, which nobody reads."""
