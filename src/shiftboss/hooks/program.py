"""A hook, from its command line to its exit code.

Whatever goes wrong in it refuses: an agent whose hook fails must not be freer than before.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any, Final

from shiftboss.hooks.contract import ContractUnreadable, contract_file, read_contract

_TOOL_KINDS: Final = frozenset(
    ("pre-tool-use", "codex-pre-tool-use", "gemini-before-tool", "opencode-before-tool")
)
# How each agent is told to go on.
_STOP_KINDS: Final = {"stop": "block", "codex-stop": "block", "gemini-after-agent": "deny"}
_GIT_KINDS: Final = frozenset(("pre-commit", "pre-push"))
_INPUT_MAX: Final = 10_000_000
# Agents give up on a hook after some time, and then go on as if it had agreed.
_SECONDS_MAX: Final = 25
_REFUSED: Final = 2
_REFUSED_BY_GIT_HOOK: Final = 1


class HookRefused(Exception):
    """What the hook says on its error output."""


def run(arguments: Sequence[str]) -> int:
    """The exit code."""
    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(_SECONDS_MAX)
    kind = arguments[0] if arguments else ""
    try:
        answer = _run(kind, arguments[1:])
    except HookRefused as refused:
        _say(sys.stderr, str(refused))
        return _REFUSED_BY_GIT_HOOK if kind in _GIT_KINDS else _REFUSED
    except BaseException as error:  # noqa: BLE001 -- what is not understood is refused
        _say(
            sys.stderr, f"Shiftboss refused this: its hook failed: {type(error).__name__}: {error}"
        )
        return _REFUSED_BY_GIT_HOOK if kind in _GIT_KINDS else _REFUSED
    finally:
        signal.alarm(0)
    if answer:
        _say(sys.stdout, answer)
    return 0


def _run(kind: str, arguments: Sequence[str]) -> str | None:
    """What goes to the output of a hook that agrees."""
    if kind not in _TOOL_KINDS | _STOP_KINDS.keys() | _GIT_KINDS:
        raise HookRefused(f"shiftboss hook: there is no hook {kind!r}")
    file = contract_file(arguments, os.environ, ".")
    if file is None:
        return None  # a session of somebody who works without a contract
    if kind in _GIT_KINDS:
        _ask_about_git(kind, file)
        return None
    if kind in _STOP_KINDS:
        from shiftboss.hooks.stop_hook import reason_to_go_on  # late: each hook loads its own part

        reason = reason_to_go_on(file, _input_or_nothing())
        answer = {"decision": _STOP_KINDS[kind], "reason": reason} if reason else {}
        return json.dumps(answer)
    from shiftboss.hooks.tool_hook import refusal

    refused = refusal(kind, _input(), _contract(file), file)
    if refused is not None:
        raise HookRefused(refused)
    return "{}" if kind == "gemini-before-tool" else None


def _ask_about_git(kind: str, file: str) -> None:
    from shiftboss.hooks.git_hooks import commit_refusal, push_refusal

    contract = _contract(file)
    if kind == "pre-commit":
        refused = commit_refusal(contract, file)
    else:
        said = sys.stdin.buffer.read(_INPUT_MAX).decode(errors="replace")
        refused = push_refusal(contract, file, said)
    if refused is not None:
        raise HookRefused(refused)


def _contract(file: str) -> Any:
    try:
        return read_contract(file)
    except ContractUnreadable as error:
        raise HookRefused(
            f"Shiftboss refused this: the contract of this work cannot be relied on. {error}. "
            "Stop, and report BLOCKED: whoever started the work has to write it again."
        ) from error


def _input() -> dict[str, Any]:
    text = sys.stdin.buffer.read(_INPUT_MAX + 1)
    if len(text) > _INPUT_MAX:
        raise HookRefused(f"Shiftboss refused this: the input is larger than {_INPUT_MAX} bytes")
    try:
        said = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise HookRefused(f"Shiftboss refused this: the input is no JSON: {error}") from error
    if not isinstance(said, dict):
        raise HookRefused("Shiftboss refused this: the input is no JSON object")
    return said


def _input_or_nothing() -> dict[str, Any]:
    """For the end of an agent, which must not be refused for ever."""
    try:
        return _input()
    except HookRefused:
        return {}


def _say(stream: Any, text: str) -> None:
    stream.buffer.write(text.encode(errors="backslashreplace") + b"\n")
    stream.flush()


def _too_long(_signal: int, _frame: object) -> None:
    raise HookRefused(f"Shiftboss refused this: its hook took longer than {_SECONDS_MAX} seconds")
