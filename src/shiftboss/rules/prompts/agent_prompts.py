"""What the agents of a plan read: short, because every word is paid for at every step.

The budget is that of the completion contract: all of the first prompt within 450 tokens, whatever
the task holds. What does not fit is in the handoff, which the agent can ask for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from shiftboss.rules.prompts.token_estimate import CountTokens, estimate_tokens

PROMPT_TOKENS_MAX: Final = 450
FIX_TOKENS_MAX: Final = 1500
_TITLE_CHARACTERS_MAX: Final = 300

_FIXED: Final = """\
Work in this git work tree, branch {branch}.
{claim}
Edit only the FILEs; {scope}.
Details: {more}
"""
_CLAIM: Final = (
    'Commit, then swarm_complete(swarm_id="{swarm}", bead_id="{task}", name="{worker}", '
    "epoch={epoch}, summary). Refused: mend, call again."
)
_CLAIM_BY_EXIT: Final = "Commit and exit; it is checked then."


class RunTask(NamedTuple):
    """`speaks`: the agent has our tools. `claims`: it claims its work itself with them; others just
    work, and exit."""

    swarm_id: str
    bead_id: str
    worker: str
    epoch: int
    branch: str
    title: str
    description: str = ""
    files: Sequence[str] = ()
    criteria: Sequence[str] = ()
    speaks: bool = True
    claims: bool = True
    handoff_file: str = "handoff.json"
    checkpoint: Mapping[str, Any] | None = None
    salvage: Sequence[Mapping[str, Any]] = ()


def run_prompt(task: RunTask, count_tokens: CountTokens = estimate_tokens) -> str:
    """Whole lines, the important ones first; the last line says what was left out."""
    kept = [_fixed(task), f"TASK {task.bead_id}: {_line(task.title)[:_TITLE_CHARACTERS_MAX]}\n"]
    return _within(kept, [*_before(task), *_about(task)], PROMPT_TOKENS_MAX, count_tokens)


def fix_prompt(
    task: RunTask, reasons: Sequence[str], count_tokens: CountTokens = estimate_tokens
) -> str:
    """What the server refused, for a process that begins anew in the same folder."""
    head = [
        _fixed(task),
        f"TASK {task.bead_id}: {_line(task.title)[:_TITLE_CHARACTERS_MAX]}\n",
        "Your commits are on the branch; they were refused. Mend this:\n",
    ]
    told = [line for one in reasons for line in one.splitlines() if line.strip()]
    text = _within(head, told, FIX_TOKENS_MAX * 2 // 3, count_tokens)
    return _within([text], _about(task), FIX_TOKENS_MAX, count_tokens)


def _fixed(task: RunTask) -> str:
    claim = _CLAIM if task.speaks and task.claims else _CLAIM_BY_EXIT
    return _FIXED.format(
        branch=task.branch,
        claim=claim.format(
            swarm=task.swarm_id, task=task.bead_id, worker=task.worker, epoch=task.epoch
        ),
        scope="others: request_scope" if task.speaks else "others are refused",
        more="show_handoff" if task.speaks else task.handoff_file,
    )


def _about(task: RunTask) -> list[str]:
    return [
        *(f"FILE: {one}" for one in task.files),
        *(one for one in task.description.splitlines() if one.strip()),
        *(f"MUST HOLD: {_line(one)}" for one in task.criteria),
    ]


def _before(task: RunTask) -> list[str]:
    """What earlier attempts left."""
    found = []
    if task.checkpoint:
        said = json.dumps(dict(task.checkpoint), ensure_ascii=False, sort_keys=True)
        found.append(f"CARRY ON from this checkpoint: {_line(said)[:600]}")
    for one in task.salvage[-2:]:
        left = {key: one[key] for key in ("ref", "commits", "reason") if one.get(key)}
        if left:
            found.append(f"LEFT by an earlier attempt: {_line(json.dumps(left))[:200]}")
    return found


def _within(
    head: Sequence[str], lines: Sequence[str], budget: int, count_tokens: CountTokens
) -> str:
    text = "".join(head)
    for number, line in enumerate(lines):
        rest = len(lines) - number - 1
        more = f"({rest} more lines: see the handoff)\n" if rest else ""
        if count_tokens(f"{text}{line}\n{more}") > budget:
            return f"{text}({rest + 1} more lines: see the handoff)\n"
        text += f"{line}\n"
    return text


def _line(text: str) -> str:
    return " ".join(text.split())
