"""A packet worker in a thread, correct except for one named defect.

It waits for a server that is down, as the document allows; the worker library goes on instead.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.acceptance.conformance.scripted_workers import ScriptedWorker

RECOVERABLE = {"network_error", "rate_limit", "test_flake", "dependency_timeout"}


class ScriptedPacketWorker(ScriptedWorker):
    def work(self) -> None:
        env = self.environment
        self.packet_id = int(env["SHIFTBOSS_PACKET_ID"])
        self.packet_name = env["SHIFTBOSS_PACKET_NAME"]
        self.steps = Path(env["SHIFTBOSS_STEPS"]).read_text().splitlines()
        folder = Path(env["SHIFTBOSS_WORKTREE"]) / ".spellbook" / "checkpoints"
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"packet-{self.packet_id}-{self.packet_name}.json"
        self.completed = self.restored()
        registration = {
            "packet_name": self.packet_name,
            "tasks_total": len(self.steps),
            "worktree": env["SHIFTBOSS_WORKTREE"],
        }
        if not self.is_wrong("does not register"):
            self.report("register", registration, {})
        for step in self.steps[self.completed :]:
            if not self.perform(step):
                return
        if not self.is_wrong("never completes"):
            self.complete()

    def restored(self) -> int:
        if not self.path.exists() or self.is_wrong("starts over"):
            return 0
        return int(json.loads(self.path.read_text())["tasks_completed"])

    def perform(self, step: str) -> bool:
        task_id, verb, *rest = step.split(" ", 2)
        if verb == "error":
            kind, _, message = rest[0].partition(" ")
            is_recoverable = kind in RECOVERABLE and not self.is_wrong("nothing is recoverable")
            is_recoverable = is_recoverable or self.is_wrong("everything is recoverable")
            failure = {"task_id": task_id, "error_type": kind, "message": message}
            failure_members = {**failure, "recoverable": is_recoverable}
            self.report("error", failure_members, failure_members)
            return False
        while verb == "wait" and not Path(rest[0]).exists():
            self.pause()
        self.completed += 2 if self.is_wrong("counts wrong") and self.completed == 0 else 1
        done = {"task_id": task_id, "task_name": f"Step {task_id}", "status": "completed"}
        if not (self.is_wrong("skips a task") and task_id == "task-2"):
            counters = {"tasks_completed": self.completed, "tasks_total": len(self.steps)}
            self.report("progress", {**done, **counters}, done)
        return True

    def complete(self) -> None:
        end = {
            "final_commit": self.environment["SHIFTBOSS_FINAL_COMMIT"],
            "tests_passed": True,
            "review_passed": True,
        }
        answer = self.report("complete", end, end)
        is_over = answer.get("swarm_complete") and not self.is_wrong("never cleans up")
        if is_over or self.is_wrong("cleans up too early"):
            self.path.unlink()

    def report(
        self, operation: str, members: dict[str, Any], noted: dict[str, Any]
    ) -> dict[str, Any]:
        if not self.is_wrong("calls first"):
            self.checkpoint(operation, noted)
        path = f"/swarm/{self.environment['SHIFTBOSS_SWARM']}/{operation}"
        key = f"{operation}-{self.completed}-{self.packet_id}"
        answer = self.call(path, {"packet_id": self.packet_id, **members}, key)
        if self.is_wrong("calls first"):
            self.checkpoint(operation, noted)
        return answer

    def checkpoint(self, operation: str, noted: dict[str, Any]) -> None:
        now = datetime.now(UTC)
        stamp = now.replace(tzinfo=None) if self.is_wrong("local time") else now
        document = {
            "event": "registered" if operation == "register" else operation,
            "timestamp": stamp.isoformat(),
            "packet_id": self.packet_id,
            "packet_name": self.packet_name,
            "tasks_completed": self.completed,
            "tasks_total": len(self.steps),
            **noted,
        }
        written = self.path.with_suffix(".new")
        written.write_text(json.dumps(document))
        written.replace(self.path)
