"""Before a tool of an agent is used: is it within the contract?"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from shiftboss.hooks.contract import LocalContract
from shiftboss.hooks.judging import BANNED, SCOPE, Denial, Judge
from shiftboss.hooks.messages import denied
from shiftboss.hooks.tools import Call, call_of


class Form(NamedTuple):
    """Under which keys an agent names the tool and its input."""

    tool: str
    given: str


FORMS: Final = {
    "pre-tool-use": Form("tool_name", "tool_input"),
    "codex-pre-tool-use": Form("tool_name", "tool_input"),
    "gemini-before-tool": Form("tool_name", "tool_input"),
    "opencode-before-tool": Form("tool", "args"),
}


def refusal(
    kind: str, said: Mapping[str, Any], contract: LocalContract, contract_file: str
) -> str | None:
    """None: it may go on."""
    form = FORMS[kind]
    call = call_of(said, tool=form.tool, given=form.given)
    denials = _denials(call, contract, contract_file)
    if any(one.rule == SCOPE for one in denials):
        from shiftboss.hooks.server import newer_contract  # late: few calls are refused

        newer = newer_contract(contract, contract_file)
        if newer is not None:
            contract = newer
            denials = _denials(call, contract, contract_file)
    return denied(denials, contract) if denials else None


def _denials(call: Call, contract: LocalContract, contract_file: str) -> list[Denial]:
    judge = Judge(contract, contract_file, os.environ)
    found = list(judge.edits(call.folder, call.edits))
    if call.commands:
        from shiftboss.hooks.shell_words import Unclear  # late: an edit needs no shell
        from shiftboss.hooks.shell_writes import ShellWrites

        shell = ShellWrites(call.folder, os.environ, contract.branch, contract.base)
        try:
            for command in call.commands:
                shell.script(command) if isinstance(command, str) else shell.argv(command)
        except Unclear as error:
            found.append(Denial(BANNED, "the command", f"{error}; write it in a plainer way"))
        found += judge.found(shell.found)
    return list(dict.fromkeys(found))
