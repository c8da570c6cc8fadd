"""A model that says what a script tells it, for agents that are run without one.

Speaks the Messages API, streamed. The step is counted from the conversation in the request, so a
request that is sent again gets the same words again.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, NamedTuple


class UseTool(NamedTuple):
    name: str
    arguments: dict[str, Any]


# Takes the text of the last tool result; the model uses a tool or says something.
Step = Callable[[str], UseTool | str]

_USAGE: Final = {"input_tokens": 1, "output_tokens": 1}


class ScriptedModel:
    """`results` are the texts of all tool results that the agent has shown to the model."""

    def __init__(self, script: list[Step]) -> None:
        self._script = script
        self._name = uuid.uuid4().hex
        self.url = ""
        self.results: list[str] = []

    def answer(self, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """The events of the stream."""
        results = list(_tool_results(request["messages"]))
        if len(results) > len(self.results):
            self.results = results
        # The id of a tool's use comes back to us with the result and goes with the call to the
        # tool: the same for a request that is sent again, another for every other.
        return _events(self._next(request, results), f"toolu_{self._name}_{len(results)}")

    def _next(self, request: dict[str, Any], results: list[str]) -> UseTool | str:
        if not request.get("tools"):
            return "A title"  # agents ask for one on the side
        if len(results) >= len(self._script):
            return "done"
        return self._script[len(results)](results[-1] if results else "")


def _tool_results(messages: list[dict[str, Any]]) -> Iterator[str]:
    for message in messages:
        for block in message["content"] if isinstance(message["content"], list) else ():
            if block["type"] == "tool_result":
                yield _text(block.get("content", ""))


def _text(content: str | list[dict[str, Any]]) -> str:
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content)


@contextmanager
def speaking(script: list[Step]) -> Iterator[ScriptedModel]:
    """The model, served on a port of its own."""
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
    answer: Callable[[dict[str, Any]], Iterator[dict[str, Any]]]

    def do_HEAD(self) -> None:
        self._send(b"", "application/json")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.path.partition("?")[0] != "/v1/messages":
            self._send(b'{"input_tokens": 1}', "application/json")
            return
        events = type(self).answer(json.loads(body))
        frames = [f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in events]
        self._send("".join(frames).encode(), "text/event-stream")

    def _send(self, body: bytes, content_type: str) -> None:
        self.send_response(200)
        self.send_header("content-type", content_type)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


def _events(said: UseTool | str, use_id: str) -> Iterator[dict[str, Any]]:
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "scripted"}
    rest: dict[str, Any] = {
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": _USAGE,
    }
    yield {"type": "message_start", "message": head | rest}
    block, delta = _block(said, use_id)
    yield {"type": "content_block_start", "index": 0, "content_block": block}
    yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    reason = "tool_use" if isinstance(said, UseTool) else "end_turn"
    stop = {"stop_reason": reason, "stop_sequence": None}
    yield {"type": "message_delta", "delta": stop, "usage": {"output_tokens": 1}}
    yield {"type": "message_stop"}


def _block(said: UseTool | str, use_id: str) -> tuple[dict[str, Any], dict[str, Any]]:
    if isinstance(said, str):
        return {"type": "text", "text": ""}, {"type": "text_delta", "text": said}
    block = {"type": "tool_use", "id": use_id, "name": said.name, "input": {}}
    return block, {"type": "input_json_delta", "partial_json": json.dumps(said.arguments)}
