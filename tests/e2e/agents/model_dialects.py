"""The APIs through which agents reach a model: Messages, Responses, Chat and Gemini."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final, NamedTuple, Protocol

INPUT_TOKENS: Final = 1200
OUTPUT_TOKENS: Final = 30


class UseTool(NamedTuple):
    name: str
    arguments: dict[str, Any]


Said = UseTool | str


class Dialect(Protocol):
    def results(self, request: dict[str, Any]) -> Iterator[str]:
        """The texts of the tool results in the conversation."""
        ...

    def turns(self, request: dict[str, Any]) -> int:
        """The number of turns of the model in the conversation."""
        ...

    def events(self, reply: Said, use_id: str) -> Iterator[dict[str, Any]]: ...

    def frame(self, event: dict[str, Any]) -> str: ...


def dialect_of(path: str) -> Dialect | None:
    for end, dialect in _DIALECTS.items():
        if path.endswith(end):
            return dialect
    return None


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(_text(part.get("text", "")) for part in content)
    return json.dumps(content)


class _Messages:
    """Anthropic's API."""

    def results(self, request: dict[str, Any]) -> Iterator[str]:
        for message in request["messages"]:
            for block in message["content"] if isinstance(message["content"], list) else ():
                if block["type"] == "tool_result":
                    yield _text(block.get("content", ""))

    def turns(self, request: dict[str, Any]) -> int:
        return sum(message["role"] == "assistant" for message in request["messages"])

    def events(self, reply: Said, use_id: str) -> Iterator[dict[str, Any]]:
        head = {"id": f"msg_{use_id}", "type": "message", "role": "assistant", "model": "scripted"}
        rest: dict[str, Any] = {
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": INPUT_TOKENS, "output_tokens": 1},
        }
        yield {"type": "message_start", "message": head | rest}
        block, delta = self._block(reply, f"toolu_{use_id}")
        yield {"type": "content_block_start", "index": 0, "content_block": block}
        yield {"type": "content_block_delta", "index": 0, "delta": delta}
        yield {"type": "content_block_stop", "index": 0}
        reason = "tool_use" if isinstance(reply, UseTool) else "end_turn"
        stop = {"stop_reason": reason, "stop_sequence": None}
        usage = {"output_tokens": OUTPUT_TOKENS}
        yield {"type": "message_delta", "delta": stop, "usage": usage}
        yield {"type": "message_stop"}

    def _block(self, reply: Said, use_id: str) -> tuple[dict[str, Any], dict[str, Any]]:
        if isinstance(reply, str):
            return {"type": "text", "text": ""}, {"type": "text_delta", "text": reply}
        block = {"type": "tool_use", "id": use_id, "name": reply.name, "input": {}}
        return block, {"type": "input_json_delta", "partial_json": json.dumps(reply.arguments)}

    def frame(self, event: dict[str, Any]) -> str:
        return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"


class _Responses:
    """OpenAI's current API. A tool of an MCP server is named `server/tool`."""

    def results(self, request: dict[str, Any]) -> Iterator[str]:
        for item in request["input"]:
            if str(item.get("type", "")).endswith("_output"):
                yield _text(item.get("output", ""))

    def turns(self, request: dict[str, Any]) -> int:
        return sum(
            str(item.get("type", "")).endswith("_call") or item.get("role") == "assistant"
            for item in request["input"]
        )

    def events(self, reply: Said, use_id: str) -> Iterator[dict[str, Any]]:
        item = self._item(reply, use_id)
        head: dict[str, Any] = {"id": f"resp_{use_id}", "object": "response", "output": []}
        yield {"type": "response.created", "response": head | {"status": "in_progress"}}
        yield {"type": "response.output_item.added", "output_index": 0, "item": item}
        yield {"type": "response.output_item.done", "output_index": 0, "item": item}
        usage = {
            "input_tokens": INPUT_TOKENS,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": OUTPUT_TOKENS,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
        }
        done = {"status": "completed", "output": [item], "usage": usage}
        yield {"type": "response.completed", "response": head | done}

    def _item(self, reply: Said, use_id: str) -> dict[str, Any]:
        if isinstance(reply, str):
            content = [{"type": "output_text", "text": reply, "annotations": []}]
            head = {"type": "message", "id": f"msg_{use_id}", "status": "completed"}
            return head | {"role": "assistant", "content": content}
        server, _, name = reply.name.rpartition("/")
        call = {"id": f"fc_{use_id}", "call_id": f"call_{use_id}", "name": name}
        if "input" in reply.arguments:
            return {"type": "custom_tool_call", **call, "input": reply.arguments["input"]}
        call |= {"arguments": json.dumps(reply.arguments), "status": "completed"}
        return {"type": "function_call", **call, **({"namespace": server} if server else {})}

    def frame(self, event: dict[str, Any]) -> str:
        return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"


class _Chat:
    """OpenAI's older API, which others offer too."""

    def results(self, request: dict[str, Any]) -> Iterator[str]:
        for message in request["messages"]:
            if message["role"] == "tool":
                yield _text(message.get("content", ""))

    def turns(self, request: dict[str, Any]) -> int:
        return sum(message["role"] == "assistant" for message in request["messages"])

    def events(self, reply: Said, use_id: str) -> Iterator[dict[str, Any]]:
        yield self._chunk(use_id, {"role": "assistant", "content": ""})
        if isinstance(reply, str):
            yield self._chunk(use_id, {"content": reply})
        else:
            function = {"name": reply.name, "arguments": json.dumps(reply.arguments)}
            call = {"index": 0, "id": f"call_{use_id}", "type": "function", "function": function}
            yield self._chunk(use_id, {"tool_calls": [call]})
        yield self._chunk(use_id, {}, "stop" if isinstance(reply, str) else "tool_calls")
        usage = {"prompt_tokens": INPUT_TOKENS, "completion_tokens": OUTPUT_TOKENS}
        total = {"total_tokens": INPUT_TOKENS + OUTPUT_TOKENS}
        yield self._chunk(use_id, {}) | {"choices": [], "usage": usage | total}

    def _chunk(
        self, use_id: str, delta: dict[str, Any], reason: str | None = None
    ) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        head = {"id": f"chat_{use_id}", "object": "chat.completion.chunk", "created": 1}
        return {**head, "model": "scripted", "choices": [choice]}

    def frame(self, event: dict[str, Any]) -> str:
        end = "" if event["choices"] else "data: [DONE]\n\n"
        return f"data: {json.dumps(event)}\n\n{end}"


class _Gemini:
    def results(self, request: dict[str, Any]) -> Iterator[str]:
        for content in request["contents"]:
            for part in content.get("parts", ()):
                if "functionResponse" in part:
                    yield _text(part["functionResponse"].get("response", ""))

    def turns(self, request: dict[str, Any]) -> int:
        return sum(content.get("role") == "model" for content in request["contents"])

    def events(self, reply: Said, use_id: str) -> Iterator[dict[str, Any]]:
        part: dict[str, Any] = {"text": reply}
        if isinstance(reply, UseTool):
            part = {"functionCall": {"name": reply.name, "args": reply.arguments}}
        content = {"role": "model", "parts": [part]}
        usage = {"promptTokenCount": INPUT_TOKENS, "candidatesTokenCount": OUTPUT_TOKENS}
        total = {"totalTokenCount": INPUT_TOKENS + OUTPUT_TOKENS}
        candidate = {"content": content, "finishReason": "STOP", "index": 0}
        yield {"responseId": use_id, "candidates": [candidate], "usageMetadata": usage | total}

    def frame(self, event: dict[str, Any]) -> str:
        return f"data: {json.dumps(event)}\n\n"


_DIALECTS: Final[dict[str, Dialect]] = {
    "/v1/messages": _Messages(),
    "/responses": _Responses(),
    "/chat/completions": _Chat(),
    ":streamGenerateContent": _Gemini(),
}
