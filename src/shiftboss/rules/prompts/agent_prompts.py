"""The prompts for the agents of a plan. They are short, because every step pays for every token.

The first prompt has at most 450 tokens, as in the completion contract, however long the task is.
What does not fit is in the handoff, which the agent can ask for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from shiftboss.rules.prompts.token_estimate import CountTokens, estimate_tokens

PROMPT_TOKENS_MAX: Final = 450
FIX_TOKENS_MAX: Final = 1500
_TITLE_CHARACTERS_MAX: Final = 300
_INSTRUCTIONS_CHARACTERS_MAX: Final = 600

_INSTRUCTIONS: Final = """\
Work here, branch {branch}.
{claim}
{scope}
{contract}
"""
_CLAIM: Final = (
    '{first}swarm_complete(swarm_id="{swarm}", bead_id="{task}", name="{worker}", '
    "epoch={epoch}, summary). Fix and repeat until accepted."
)
_CLAIM_BY_EXIT: Final = "Commit and exit; then it is checked."
# A worker that may say so has less reason to pretend.
_CONTRACT: Final = "See show_handoff. Wrong or impossible? dispute_contract: no failure."
_CONTRACT_BY_COMMAND: Final = (
    "Details: {file}\nWrong or impossible? `shiftboss dispute {task} --help` says how: no failure."
)
_ONLY_READS: Final = "Change and commit nothing. Say what you found {where}."
_EXIT: Final = "Exit when you are done; then it is checked."


class RunTask(NamedTuple):
    """`speaks` means that the agent has our tools, `claims` that it claims its work with them.
    Other agents just work and exit."""

    swarm_id: str
    bead_id: str
    worker: str
    epoch: int
    branch: str
    title: str
    description: str = ""
    files: Sequence[str] = ()
    criteria: Sequence[str] = ()
    expectations_change: Sequence[str] = ()
    speaks: bool = True
    claims: bool = True
    handoff_file: str = "handoff.json"
    checkpoint: Mapping[str, Any] | None = None
    salvage: Sequence[Mapping[str, Any]] = ()


def run_prompt(task: RunTask, count_tokens: CountTokens = estimate_tokens) -> str:
    """Whole lines, the important ones first. The last line says how many were left out."""
    kept = [
        _instructions(task),
        _title(task),
    ]
    return _within(
        kept, [*_earlier_attempts(task), *_task_lines(task)], PROMPT_TOKENS_MAX, count_tokens
    )


def fix_prompt(
    task: RunTask, reasons: Sequence[str], count_tokens: CountTokens = estimate_tokens
) -> str:
    """The prompt after a refusal, for a new process in the same folder."""
    head = [
        _instructions(task),
        _title(task),
        "Your commits are on the branch; they were refused. Fix this:\n",
    ]
    lines = [line for reason in reasons for line in reason.splitlines() if line.strip()]
    text = _within(head, lines, FIX_TOKENS_MAX * 2 // 3, count_tokens)
    return _within([text], _task_lines(task), FIX_TOKENS_MAX, count_tokens)


def _instructions(task: RunTask) -> str:
    return _INSTRUCTIONS.format(
        branch=task.branch,
        claim=_claim(task),
        scope=_scope(task),
        contract=_contract(task),
    )


def _claim(task: RunTask) -> str:
    if not (task.speaks and task.claims):
        return _CLAIM_BY_EXIT if task.files else _EXIT
    return _CLAIM.format(
        first="Commit, then " if task.files else "When done: ",
        swarm=task.swarm_id,
        task=task.bead_id,
        worker=task.worker,
        epoch=task.epoch,
    )


def _scope(task: RunTask) -> str:
    if not task.files:
        claims = task.speaks and task.claims
        return _ONLY_READS.format(where="in the summary" if claims else "in your last message")
    others = "others: request_scope" if task.speaks else "others are refused"
    return f"Edit only the FILEs; {others}."


def _contract(task: RunTask) -> str:
    if task.speaks:
        return _CONTRACT
    return _CONTRACT_BY_COMMAND.format(file=task.handoff_file, task=task.bead_id)


def _title(task: RunTask) -> str:
    return f"TASK {task.bead_id}: {_line(task.title)[:_TITLE_CHARACTERS_MAX]}\n"


def _task_lines(task: RunTask) -> list[str]:
    return [
        *(f"FILE: {path}" for path in task.files),
        *(f"EXPECTATIONS MAY CHANGE: {path}" for path in task.expectations_change),
        *(line for line in task.description.splitlines() if line.strip()),
        *(f"MUST HOLD: {_line(criterion)}" for criterion in task.criteria),
    ]


def _earlier_attempts(task: RunTask) -> list[str]:
    """What earlier attempts left behind."""
    lines = []
    checkpoint_members = dict(task.checkpoint or {})
    instructions = checkpoint_members.pop("instructions", None)
    if instructions:
        lines.append(f"A PERSON SAYS: {_line(str(instructions))[:_INSTRUCTIONS_CHARACTERS_MAX]}")
    if checkpoint_members.pop("start_over", False):
        lines.append(
            "START OVER from the base: the earlier commits were not accepted. Do not build on them."
        )
    elif checkpoint_members:
        checkpoint = json.dumps(checkpoint_members, ensure_ascii=False, sort_keys=True)
        lines.append(f"CONTINUE from this checkpoint: {_line(checkpoint)[:600]}")
    for salvage in task.salvage[-2:]:
        left = {key: salvage[key] for key in ("ref", "commits", "reason") if salvage.get(key)}
        if left:
            lines.append(f"LEFT by an earlier attempt: {_line(json.dumps(left))[:200]}")
    return lines


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
