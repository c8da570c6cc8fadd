"""What people and agents try although they may not: over HTTP and, every other time, over MCP."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from shiftboss.rules.access.roles import Permission
from shiftboss.server.mcp.tools import TOOLS
from tests.e2e.team.callers import Caller

FORBIDDEN: Final = "forbidden"
Members = dict[str, Any]


class Target(NamedTuple):
    """The task of somebody else, its holder, and the open question of a swarm."""

    swarm: str
    task: str
    holder: str
    question: int = 1


class Misdeed(NamedTuple):
    """`members` is None for a GET."""

    path: str
    members: Members | None
    expected: str = FORBIDDEN

    @property
    def tool(self) -> str | None:
        name = self.path.removeprefix("/bus/")
        return name if name in TOOLS else None


def misdeeds(permission: Permission, target: Target) -> Iterator[Misdeed]:
    """What needs that permission."""
    prefix = "operator" if permission in (Permission.OPERATE, Permission.VERIFY) else "bus"
    for operation, members_of in _OPERATIONS[permission].items():
        yield Misdeed(f"/{prefix}/{operation}", members_of(target))


def _task(target: Target, **members: object) -> Members:
    return {"swarm_id": target.swarm, "bead_id": target.task} | members


def _of_holder(target: Target, **members: object) -> Members:
    return _task(target, name=target.holder) | members


def _swarm(target: Target, **members: object) -> Members:
    return {"swarm_id": target.swarm} | members


def _message(target: Target, kind: str, **members: object) -> Members:
    message = {"type": kind, "worker_id": target.holder, "timestamp": "2026-01-05T10:00:00Z"}
    return _swarm(target, message=message | {"payload": {}} | members)


_OPERATIONS: Final[dict[Permission, dict[str, Callable[[Target], Members]]]] = {
    Permission.READ: {
        "show_task": _task,
        "why_task": _task,
        "list_tasks": _swarm,
        "list_questions": _swarm,
        "get_status": _swarm,
        "list_receipts": _swarm,
        "show_usage": _swarm,
    },
    Permission.WORK: {
        "worker_done": _of_holder,
        "task_failed": lambda target: _of_holder(target, reason="it is mine"),
        "heartbeat": _of_holder,
        "park_task": lambda target: _of_holder(target, epoch=1, reason="later"),
        "register_worker": lambda target: _swarm(target, name=target.holder),
        "poll_task": lambda target: _swarm(target, name=target.holder, timeout_ms=0),
        "send_message": lambda target: _message(target, "progress"),
    },
    Permission.SPAWN: {
        "add_task": lambda target: _swarm(target, bead_id="extra", title="Extra"),
        "submit_task": _task,
        "swarm_spawn_subtask": lambda target: _task(target, files=["src/"]),
    },
    Permission.STEER: {
        "cancel_task": _task,
        "retry_task": _task,
        "reset_worker": lambda target: _swarm(target, worker_name=target.holder),
        "answer_question": lambda target: _swarm(
            target, question_id=target.question, answer="As I say."
        ),
        "pause_swarm": lambda target: _swarm(target, reason="I want it"),
        "set_budget": lambda target: _swarm(target, tokens=1),
        "create_task_token": lambda target: _task(target, expires_in_seconds=60),
        "report_run": _swarm,
        "send_message": lambda target: _message(target, "assign", task_id=target.task),
    },
    Permission.OPERATE: {
        "waive": lambda target: _task(target, check="scope", reason="I say so"),
        "spawn_subtask": lambda target: _task(target, files=["src/"]),
        "approve": _task,
        "delete_swarm": _swarm,
        "resume_swarm": _swarm,
        "create_token": lambda _: {"name": "mine", "role": "operator"},
        "list_tokens": lambda _: {},
        "revoke_token": lambda _: {"token": "olivia"},
        "rotate_token": lambda _: {"name": "olivia"},
        "show_deployment": lambda _: {},
        "retire_key": lambda _: {"key_id": "0" * 16},
        "apply_policy": lambda _: {"body": "repos: {}", "source": "/shiftboss.yaml"},
    },
    Permission.VERIFY: {
        "take_claim": lambda _: {"verifier": "vera", "wait_ms": 0},
        "report_verdict": lambda target: _task(target, claim_id=1, verifier="vera", failure="no"),
    },
}


class Liar:
    """Tries some of its misdeeds at each occasion, until all were tried, and then again."""

    def __init__(self, caller: Caller) -> None:
        self.caller = caller
        self.known: set[str] = set()
        self.tried: set[str] = set()
        # What was not refused as it should be.
        self.successes: list[str] = []
        self._next = 0

    async def misbehave(self, misdeeds: list[Misdeed], count: int) -> None:
        self.known |= {misdeed.path for misdeed in misdeeds}
        for _ in range(count):
            misdeed = misdeeds[self._next % len(misdeeds)]
            is_tool = misdeed.tool is not None and self._next // len(misdeeds) % 2 == 1
            self._next += 1
            if is_tool:
                code = await self.caller.tool_refusal(misdeed.tool or "", misdeed.members or {})
            else:
                code = await self.caller.refusal(misdeed.path, misdeed.members)
            self.tried.add(misdeed.path)
            if code != misdeed.expected:
                self.successes.append(f"{self.caller.name}: {misdeed} -> {code!r}")
