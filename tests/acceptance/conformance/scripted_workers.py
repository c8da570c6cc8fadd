"""Workers in threads, correct except for one named defect."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

PAUSE_SECONDS = 0.02
END_SECONDS = 20.0
ACCEPTED = "application/json, text/event-stream"


class StoppedError(Exception):
    """The kit has killed the worker."""


class DiedError(Exception):
    """The worker ends because of its defect."""


class ScriptedWorker:
    """A thread with the interface of a worker process. `kill` ends its connections."""

    def __init__(self, defect: str, environment: Mapping[str, str]) -> None:
        self.defect = defect
        self.environment = environment
        self.stopped = threading.Event()
        self._code: int | None = None
        self._output = ""
        self._connections: set[http.client.HTTPConnection] = set()
        self._target = urlsplit(environment["SHIFTBOSS_URL"]).netloc
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    # as the kit sees it

    def exit_code(self) -> int | None:
        return self._code

    def kill(self) -> None:
        self.stopped.set()
        deadline = time.monotonic() + END_SECONDS
        # Again and again: it may be about to open another connection.
        while self._thread.is_alive() and time.monotonic() < deadline:
            self._end_connections()
            self._thread.join(PAUSE_SECONDS)
        assert not self._thread.is_alive(), "the scripted worker did not end"

    def _end_connections(self) -> None:
        for connection in list(self._connections):
            try:
                # A thread that reads is woken by this, and not by `close`.
                connection.sock.shutdown(socket.SHUT_RDWR)
            except (AttributeError, OSError):
                pass

    def last_output(self) -> str:
        return self._output

    def _run(self) -> None:
        try:
            self.work()
            self._code = 0
        except (DiedError, StoppedError, OSError) as error:
            self._output = f"{type(error).__name__}: {error}"
            self._code = 1

    def work(self) -> None:
        raise NotImplementedError

    # as it is written

    def is_wrong(self, defect: str) -> bool:
        return self.defect == defect

    def pause(self, seconds: float = PAUSE_SECONDS) -> None:
        if self.stopped.wait(seconds):
            raise StoppedError

    def exchange(
        self, path: str, body: Mapping[str, Any], key: str | None
    ) -> tuple[int, bytes, float]:
        """One attempt: status, body and Retry-After."""
        connection = http.client.HTTPConnection(self._target, timeout=40)
        self._connections.add(connection)
        try:
            headers = {"Content-Type": "application/json", "Accept": ACCEPTED}
            if key is not None:
                headers["Idempotency-Key"] = key
            connection.request("POST", path, json.dumps(body), headers)
            response = connection.getresponse()
            return response.status, response.read(), float(response.getheader("Retry-After") or 0)
        finally:
            self._connections.discard(connection)
            connection.close()
            if self.stopped.is_set():
                raise StoppedError

    def call(self, path: str, body: Mapping[str, Any], key: str | None = None) -> dict[str, Any]:
        """Repeated until the server answers; a refusal has `error` or `code`."""
        for attempt in range(10_000):
            wait = PAUSE_SECONDS
            try:
                sent_key = f"{key}-{attempt}" if key and self.is_wrong("new keys") else key
                status, content, retry_after = self.exchange(path, body, sent_key)
                answer = self.read(status, content)
                if answer is not None:
                    return answer
                if not self.is_wrong("impatient"):
                    wait = max(wait, retry_after)
            except (OSError, http.client.HTTPException, AttributeError) as error:
                if self.stopped.is_set():
                    raise StoppedError from None
                if self.gives_up_when_cut(path):
                    raise DiedError(str(error)) from None
                if self.is_wrong("never repeats") and path.endswith("worker_done"):
                    return {}
            self.pause(wait)
        raise DiedError("it never got an answer")

    def read(self, status: int, content: bytes) -> dict[str, Any] | None:
        """None: try again."""
        if status == 503 and self.is_wrong("dies on 503"):
            raise DiedError("503")
        try:
            answer: dict[str, Any] = json.loads(content)
        except ValueError:
            if self.is_wrong("dies on html"):
                raise DiedError("not JSON") from None
            return None
        return None if status >= 500 or status == 429 else answer

    def gives_up_when_cut(self, path: str) -> bool:
        if self.is_wrong("dies when a poll is cut"):
            return path.endswith("poll_task")
        return self.is_wrong("dies without a server")


class ScriptedBusWorker(ScriptedWorker):
    def work(self) -> None:
        self.name = self.environment["SHIFTBOSS_WORKER"]
        if not self.is_wrong("never registers"):
            self.bus("register_worker", name=self.name)
        if self.is_wrong("polls twice"):
            self.extra_poll()
        while True:
            if self.is_wrong("registers for every poll"):
                self.bus("register_worker", name=self.name)
            polled = self.bus("poll_task", name=self.name, timeout_ms=30_000)
            if "error" in polled and not self.is_wrong("never registers again"):
                self.bus("register_worker", name=self.name)
            if polled.get("task"):
                self.perform(polled["task"])
                if self.is_wrong("stops after one task"):
                    return
            self.pause(0.001)

    def bus(self, operation: str, key: str | None = None, **members: Any) -> dict[str, Any]:
        body = {"swarm_id": self.environment["SHIFTBOSS_SWARM"], **members}
        return self.call(f"/bus/{operation}", body, key)

    def message(self, kind: str, payload: dict[str, Any]) -> dict[str, Any]:
        message = {"type": kind, "worker_id": self.name, "timestamp": "2026-01-05T10:00:00+00:00"}
        return self.bus("send_message", message={**message, "payload": payload})

    def extra_poll(self) -> None:
        body = {"swarm_id": self.environment["SHIFTBOSS_SWARM"], "name": self.name}
        threading.Thread(target=self._poll_in_vain, args=(body,), daemon=True).start()

    def _poll_in_vain(self, body: dict[str, Any]) -> None:
        try:
            self.exchange("/bus/poll_task", {**body, "timeout_ms": 30_000}, None)
        except (OSError, StoppedError, http.client.HTTPException, AttributeError):
            pass

    def perform(self, task: dict[str, Any]) -> None:
        bead_id, epoch, title = task["bead_id"], task["epoch"], task["title"]
        mine = {"name": self.name, "bead_id": bead_id, "epoch": epoch}
        if self.is_wrong("wrong epoch"):
            mine["epoch"] = epoch + 1
        if self.is_wrong("names no epoch"):
            mine = {"bead_id": bead_id}
        key = f"{bead_id}-{epoch}-{time.monotonic_ns()}"
        if self.is_wrong("reports before ack"):
            self.bus("worker_done", key, **mine)
        if not self.is_wrong("never acknowledges"):
            acked = self.bus("ack_task", f"{key}-ack", **{**mine, "name": self.name})
            if "error" in acked and not self.is_wrong("works after a refused ack"):
                return
        self.report(title, task, mine, key)

    def report(self, title: str, task: dict[str, Any], mine: dict[str, Any], key: str) -> None:
        outcome = self.execute(title, task, mine)
        if outcome is None:
            return
        if outcome == "done":
            answer = self.bus("worker_done", key, **mine)
        else:
            reason = "" if self.is_wrong("gives no reason") else outcome
            answer = self.bus("task_failed", key, **mine, reason=reason)
        if self.is_wrong("reports twice"):
            self.bus("worker_done", f"{key}-2", **mine)
        if self.is_wrong("changes its mind") or ("error" in answer and self.is_wrong("insists")):
            self.bus("task_failed", f"{key}-3", **mine, reason="after all")

    def execute(self, title: str, task: dict[str, Any], mine: dict[str, Any]) -> str | None:
        """`done`, the reason of a failure, or None if the task was handed over."""
        verb, _, rest = title.partition(" ")
        if verb == "wait":
            return self.wait_for(Path(rest), mine)
        if verb == "ask":
            return self.ask(rest, task)
        if verb == "context":
            return self.hand_over(task)
        if verb == "done" or self.is_wrong("does anything"):
            return "done"
        return rest if verb == "fail" else f"unknown instruction: {title}"

    def wait_for(self, path: Path, mine: dict[str, Any]) -> str:
        beat_at = 0.0
        while not path.exists():
            if time.monotonic() > beat_at and not self.is_wrong("sends no heartbeats"):
                self.bus(
                    "heartbeat", name=self.name, **{k: mine[k] for k in ("epoch",) if k in mine}
                )
                beat_at = time.monotonic() + float(self.environment["SHIFTBOSS_HEARTBEAT_SECONDS"])
            self.pause()
        return "done"

    def ask(self, question: str, task: dict[str, Any]) -> str:
        attempt = {"task_id": task["bead_id"], "epoch": task["epoch"]}
        self.message("blocked", {**attempt, "question": question})
        if self.is_wrong("ignores the answer"):
            self.bus("poll_task", name=self.name, timeout_ms=5_000)
            self.message("progress", attempt)
            return "done"
        polled = self.bus("poll_task", name=self.name, timeout_ms=5_000)
        self.message("progress", attempt)
        return str(polled["answers"][0]["answer"]).removeprefix("fail ")

    def hand_over(self, task: dict[str, Any]) -> str | None:
        if task.get("checkpoint"):
            return "done"
        checkpoint = {"task_id": task["bead_id"], "epoch": task["epoch"], "checkpoint_ready": True}
        if not self.is_wrong("hands over nothing"):
            checkpoint |= {"current_step": 1, "files_created": [], "files_modified": []}
        self.message("context_threshold", checkpoint)
        return None


class ScriptedMcpWorker(ScriptedBusWorker):
    """The same loop with MCP tools instead of plain HTTP. The id of a call is its key."""

    def bus(self, operation: str, key: str | None = None, **members: Any) -> dict[str, Any]:
        arguments = {"swarm_id": self.environment["SHIFTBOSS_SWARM"], **members}
        params: dict[str, Any] = {"name": operation, "arguments": arguments}
        if key is not None:
            params["_meta"] = {"callId": key}
        request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        answer: dict[str, Any] = self.call("/mcp", request)["result"]["structuredContent"]
        return answer
