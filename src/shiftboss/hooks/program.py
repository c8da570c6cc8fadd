"""A hook, from its command line to its exit code.

Any failure is a refusal: an agent whose hook fails must not be allowed more than before.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any, Final

from shiftboss.agents.agent import REFUSED, Hook, HookAnswer, StopHook, ToolHook
from shiftboss.agents.registry import hook_kinds, hook_of
from shiftboss.hooks.contract import ContractUnreadable, LocalContract, contract_file, read_contract

GIT_HOOKS: Final = ("pre-commit", "pre-push")
_INPUT_BYTES_MAX: Final = 10_000_000
# An agent that waits too long for a hook continues as if the call were allowed, so the hook gives
# up first.
_SECONDS_MAX: Final = 25


class HookRefused(Exception):
    """The reason, for the agent to read."""


def run(arguments: Sequence[str]) -> int:
    """Run the hook and return its exit code."""
    signal.signal(signal.SIGALRM, _give_up)
    signal.alarm(_SECONDS_MAX)
    try:
        answer = _run(arguments[0] if arguments else "", arguments[1:])
    finally:
        signal.alarm(0)
    _print(sys.stderr, answer.stderr)
    _print(sys.stdout, answer.stdout)
    return answer.exit_code


def _run(kind: str, arguments: Sequence[str]) -> HookAnswer:
    hook: Hook | None = None
    try:
        hook = None if kind in GIT_HOOKS else _find_hook(kind)
        file = contract_file(arguments, os.environ, ".")
        if file is None:
            return HookAnswer()  # a session without a contract may do everything
        return _answer(kind, hook, file, is_of_run="--contract" in arguments)
    except HookRefused as refusal:
        reason = str(refusal)
    except BaseException as error:  # noqa: BLE001 -- any failure is a refusal
        reason = f"{REFUSED}: its hook failed: {type(error).__name__}: {error}"
    if isinstance(hook, ToolHook):
        return hook.refuse(reason)
    return HookAnswer(1 if kind in GIT_HOOKS else 2, stderr=reason)


def _find_hook(kind: str) -> Hook:
    hook = hook_of(kind)
    if hook is None:
        kinds = ", ".join([*hook_kinds(), *GIT_HOOKS])
        raise HookRefused(f"shiftboss hook: there is no hook {kind!r}; choose one of {kinds}")
    return hook


def _answer(kind: str, hook: Hook | None, file: str, *, is_of_run: bool) -> HookAnswer:
    """Raises HookRefused. Each hook imports its own part only, to start fast. `is_of_run`: a run
    has installed the hook; otherwise it is one that the repository contains."""
    if hook is None:
        _check_git(kind, file)
        return HookAnswer()
    if isinstance(hook, StopHook):
        from shiftboss.hooks.stop_hook import reason_to_continue

        reason = reason_to_continue(file, _input_or_empty(), is_of_run=is_of_run)
        return hook.allow() if reason is None else hook.keep_working(reason)
    from shiftboss.hooks.tool_hook import refusal

    reason = refusal(hook, _input(), _contract(file), file)
    if reason is not None:
        raise HookRefused(reason)
    return hook.allow()


def _check_git(kind: str, file: str) -> None:
    from shiftboss.hooks.git_hooks import commit_refusal, push_refusal

    contract = _contract(file)
    if kind == "pre-commit":
        reason = commit_refusal(contract, file)
    else:
        refs = sys.stdin.buffer.read(_INPUT_BYTES_MAX).decode(errors="replace")
        reason = push_refusal(contract, file, refs)
    if reason is not None:
        raise HookRefused(reason)


def _contract(file: str) -> LocalContract:
    try:
        return read_contract(file)
    except ContractUnreadable as error:
        raise HookRefused(
            f"{REFUSED}: the contract of this task is missing or was changed. {error}. "
            "Stop and report BLOCKED: the task has to be started again."
        ) from error


def _input() -> dict[str, Any]:
    text = sys.stdin.buffer.read(_INPUT_BYTES_MAX + 1)
    if len(text) > _INPUT_BYTES_MAX:
        raise HookRefused(f"{REFUSED}: the hook's input is larger than {_INPUT_BYTES_MAX} bytes")
    try:
        members = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise HookRefused(f"{REFUSED}: the hook's input is not JSON: {error}") from error
    if not isinstance(members, dict):
        raise HookRefused(f"{REFUSED}: the hook's input is not a JSON object")
    return members


def _input_or_empty() -> dict[str, Any]:
    """For the end of an agent, which must not be refused forever."""
    try:
        return _input()
    except HookRefused:
        return {}


def _print(stream: Any, text: str) -> None:
    if text:
        stream.buffer.write(text.encode(errors="backslashreplace") + b"\n")
        stream.flush()


def _give_up(_signal: int, _frame: object) -> None:
    raise HookRefused(f"{REFUSED}: its hook took longer than {_SECONDS_MAX} seconds")
