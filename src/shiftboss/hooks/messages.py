"""The message to an agent when a hook refuses something: the reason, the contract, and the
advice."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from shiftboss.agents.agent import REFUSED
from shiftboss.hooks.contract import LocalContract
from shiftboss.hooks.write_checks import OUTSIDE, SCOPE, WriteDenial

_SHOWN_MAX: Final = 10


def refused_call(denials: Sequence[WriteDenial], contract: LocalContract) -> str:
    """For a tool call."""
    lines = [f"{REFUSED}. Nothing was done."]
    lines += [f"- {denial.what} {denial.reason}" for denial in denials[:_SHOWN_MAX]]
    lines += _more(denials)
    lines.append(f"Rule: {contract.name}.")
    out_of_scope = [denial.what for denial in denials if denial.rule == SCOPE]
    if out_of_scope:
        lines.append(f"You may change: {_some(contract.owned)}.")
        lines.append(how_to_ask(contract, out_of_scope))
    if any(denial.rule == OUTSIDE for denial in denials):
        lines.append(
            f"Write inside of {contract.tree}. Temporary files may go to a folder such as /tmp, "
            "with a shell command."
        )
    return "\n".join(lines)


def how_to_ask(contract: LocalContract, paths: Sequence[str]) -> str:
    requested = json.dumps(list(dict.fromkeys(paths))[:_SHOWN_MAX], ensure_ascii=False)
    return (
        f"If the task needs it, call request_scope({contract.call_arguments}, "
        f'paths={requested}, reason="...") and try again after it is granted. '
        "Otherwise do not change it."
    )


def refused_paths(
    action: str, violations: Sequence[tuple[str, str]], contract: LocalContract, todo: str
) -> str:
    """For a commit or a push. `violations` are paths with the reason, `todo` says what to do."""
    lines = [f"shiftboss: {action} is refused by the {contract.name}:"]
    lines += [f"  {path} {reason}" for path, reason in violations[:_SHOWN_MAX]]
    lines += _more(violations)
    return "\n".join([*lines, todo, how_to_ask(contract, [path for path, _ in violations])])


def _more(items: Sequence[object]) -> list[str]:
    rest = len(items) - _SHOWN_MAX
    return [f"- and {rest} more"] if rest > 0 else []


def _some(patterns: Sequence[str]) -> str:
    shown = ", ".join(patterns[:_SHOWN_MAX])
    return (
        shown if len(patterns) <= _SHOWN_MAX else f"{shown}, and {len(patterns) - _SHOWN_MAX} more"
    )
