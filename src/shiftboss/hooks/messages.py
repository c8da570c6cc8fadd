"""What an agent reads when it is refused something: why, by which contract, and how to go on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from shiftboss.agents.agent import REFUSED
from shiftboss.hooks.contract import LocalContract
from shiftboss.hooks.write_checks import OUTSIDE, SCOPE, WriteDenial

_SHOWN_MAX: Final = 10


def refused_call(denials: Sequence[WriteDenial], contract: LocalContract) -> str:
    lines = [f"{REFUSED}, and nothing was done."]
    lines += [f"- {one.what} {one.reason}" for one in denials[:_SHOWN_MAX]]
    lines += _more(denials)
    lines.append(f"Rule: {contract.name}.")
    asked = [one.what for one in denials if one.rule == SCOPE]
    if asked:
        lines += [f"It lets you write: {_some(contract.owned)}.", how_to_ask(contract, asked)]
    if any(one.rule == OUTSIDE for one in denials):
        lines.append(
            f"Write inside of {contract.tree}; what is only for yourself may go to a temporary "
            "folder such as /tmp, by a shell command."
        )
    return "\n".join(lines)


def how_to_ask(contract: LocalContract, paths: Sequence[str]) -> str:
    asked = json.dumps(list(dict.fromkeys(paths))[:_SHOWN_MAX], ensure_ascii=False)
    return (
        f"If the task needs it, call request_scope({contract.call_words}, "
        f'paths={asked}, reason="...") and try again once it is granted. Otherwise leave it alone.'
    )


def refused_paths(
    deed: str, found: Sequence[tuple[str, str]], contract: LocalContract, way_out: str
) -> str:
    """For git: `found` are paths, each with what is read after it."""
    lines = [f"shiftboss: {deed} is refused by the {contract.name}:"]
    lines += [f"  {path} {reason}" for path, reason in found[:_SHOWN_MAX]]
    lines += _more(found)
    return "\n".join([*lines, way_out, how_to_ask(contract, [path for path, _ in found])])


def _more(found: Sequence[object]) -> list[str]:
    left = len(found) - _SHOWN_MAX
    return [f"- and {left} more"] if left > 0 else []


def _some(patterns: Sequence[str]) -> str:
    shown = ", ".join(patterns[:_SHOWN_MAX])
    return (
        shown if len(patterns) <= _SHOWN_MAX else f"{shown}, and {len(patterns) - _SHOWN_MAX} more"
    )
