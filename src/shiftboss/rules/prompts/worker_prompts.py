"""The prompts of the completion contract: a compact one at the start, the CI part after a push.

Every step of a worker pays for every token of the first prompt. So it has only the task, the report
formats, the limits, and where to find the rest.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from shiftboss.protocol.policy import CiPolicy, Policy, RepoPolicy
from shiftboss.rules.contract.ci_verdict import RESYNC_COMMAND
from shiftboss.rules.contract.forbidden_patterns import violation_of
from shiftboss.rules.prompts.token_estimate import CountTokens, estimate_tokens

_SPAWN: Final = """\
report_milestone:
WORKING: what
PUSHED_TO_CI: repo commit hash - CI run #id
FIXING_CI: job - cause
DONE: repo CI run #id all green, job: success
BLOCKED: why
BLOCKED_PERMISSION: tool - error; stop
LIMITS {working} CI {ci} fix {fixing} x{attempts}
ON PUSHED_TO_CI: get_ci_instructions
"""

# Part of the task, because the fixed part has no room left.
_DISPUTE: Final = "IF WRONG OR IMPOSSIBLE: dispute_contract; no failure"

_CI: Final = """\
The server watches the CI of your commit and tells you the result: do not poll or start runs.
Every job must pass{unskipped}.
Red: FIXING_CI: job - cause; read the log, fix, push, PUSHED_TO_CI. {attempts} attempts.
Sync skipped: {resync}
Green: DONE: repo CI run #id all green, job: success. It is checked.
"""

COMMITS_TOLD_MAX: Final = 3
KNOWN_LINES_MAX: Final = 4
KNOWN_CHARACTERS_MAX: Final = 160

# CI addresses of forges, their APIs, request headers, and tokens.
_CI_WORDS: Final = re.compile(
    r"https?://\S+/actions\b|/api/v\d/repos/|api\.github\.com/repos"
    r"|authorization:\s*(?:token|bearer)|private-token:"
    r"|\bgh[pousr]_[A-Za-z0-9]{20,}|\bgithub_pat_\w{20,}|\bglpat-[\w-]{15,}"
    r"|\b(?:FORGEJO|GITEA|GITHUB|GITLAB)_TOKEN\b|\bcurl\s[^\n]{0,200}/actions\b",
    re.IGNORECASE,
)


class SpawnTask(NamedTuple):
    """`checkpoint` is that of an earlier worker, which this one replaces."""

    task_id: str
    repo: str
    objective: str
    files: Sequence[str] = ()
    requirements: Sequence[str] = ()
    checkpoint: Mapping[str, Any] | None = None


def spawn_prompt(
    task: SpawnTask, policy: Policy, count_tokens: CountTokens = estimate_tokens
) -> str:
    """The fixed part, then as much of the task as fits its budget.

    Raises ContractViolations if the task contains CI context, which belongs to PUSHED_TO_CI.
    """
    ci = policy.repos.get(task.repo, RepoPolicy()).ci
    _check_no_ci(task, ci)
    return fixed_part(policy) + _task_part(task, ci, policy.tokens.task_specific, count_tokens)


def fixed_part(policy: Policy) -> str:
    """The part that is the same for every task, so its length is known."""
    limits = policy.timeouts.milestones
    text = _SPAWN.format(
        working=_short(limits.WORKING.timeout),
        ci=_short(limits.PUSHED_TO_CI.timeout),
        fixing=_short(limits.FIXING_CI.timeout),
        attempts=limits.FIXING_CI.max_attempts,
    )
    sandbox = policy.sandbox.worker_instruction
    return f"{text}{sandbox}\n" if sandbox else text


def ci_instructions(repo: str, policy: Policy, count_tokens: CountTokens = estimate_tokens) -> str:
    """The answer of `get_ci_instructions`. It has no address and no token, because the server
    watches CI itself.

    The must-succeed jobs come first, then as many of the others as fit.
    """
    ci = policy.repos.get(repo, RepoPolicy()).ci
    jobs = list(dict.fromkeys([*(ci.must_succeed or ()), *ci.required_jobs]))
    for shown in range(len(jobs), 0, -1):
        text = _ci_text(jobs, shown, policy)
        if count_tokens(text) <= policy.tokens.ci_stage_addon:
            return text
    return _ci_text(jobs, 0, policy)


def _ci_text(jobs: Sequence[str], shown: int, policy: Policy) -> str:
    hidden = len(jobs) - shown
    names = [*jobs[:shown], *([f"{hidden} more" if shown else "all required jobs"] * bool(hidden))]
    return _CI.format(
        unskipped=f"; not skipped: {', '.join(names)}" if names else "",
        attempts=policy.timeouts.milestones.FIXING_CI.max_attempts,
        resync=RESYNC_COMMAND,
    )


def ci_context_in(text: str, ci: CiPolicy) -> list[str]:
    """The parts of `text` that are about CI: addresses, request headers and tokens."""
    own = [
        ci.url,
        ci.token_variable,
        ci.token_file,
        ci.webhook_secret_variable,
        ci.webhook_secret_file,
    ]
    own_words = [word for word in own if word and word in text]
    return own_words + [match[0][:40] for match in _CI_WORDS.finditer(text)]


def _check_no_ci(task: SpawnTask, ci: CiPolicy) -> None:
    text = "\n".join([task.objective, *task.files, *task.requirements])
    ci_context = ci_context_in(text, ci)
    if ci_context:
        raise violation_of(
            "embedding_ci_context_at_spawn",
            f"the task contains CI context ({len(ci_context)} places)",
            field="objective",
            hint="leave CI addresses, commands and tokens out: the worker gets what it needs from "
            "get_ci_instructions",
        )


def _continue_lines(checkpoint: Mapping[str, Any], ci: CiPolicy) -> list[str]:
    """Where an earlier worker stopped. Reports about CI may contain its addresses."""
    commits = [commit[:12] for commit in checkpoint.get("commits", [])[-COMMITS_TOLD_MAX:]]
    texts = [checkpoint.get("context_summary"), *checkpoint.get("decisions_made", [])[::-1]]
    lines = [f"CONTINUE from {checkpoint.get('current_milestone')} {' '.join(commits)}".rstrip()]
    lines += [f"KNOWN: {_on_one_line(text)[:KNOWN_CHARACTERS_MAX]}" for text in texts if text]
    return [line for line in lines[: KNOWN_LINES_MAX + 1] if not ci_context_in(line, ci)]


def _task_part(task: SpawnTask, ci: CiPolicy, budget: int, count_tokens: CountTokens) -> str:
    """Whole lines. The last line says how many did not fit; they are in the handoff."""
    lines = [f"TASK {task.task_id} in {task.repo}: {_on_one_line(task.objective)}", _DISPUTE]
    lines += _continue_lines(task.checkpoint, ci) if task.checkpoint else []
    lines += [f"FILE: {path}" for path in task.files]
    lines += [f"REQUIRED: {_on_one_line(text)}" for text in task.requirements]
    if _fits(lines, budget, count_tokens):
        return _joined(lines)
    kept: list[str] = []
    for line in lines:
        if not _fits([*kept, line, _more(len(lines))], budget, count_tokens):
            break
        kept.append(line)
    if not kept:
        return _joined([_cut(lines[0], budget, count_tokens), _more(len(lines))])
    return _joined([*kept, _more(len(lines) - len(kept))])


def _cut(line: str, budget: int, count_tokens: CountTokens) -> str:
    words = line.split(" ")
    low, high = 0, len(words)
    while low < high:
        middle = (low + high + 1) // 2
        cut = " ".join(words[:middle]) + " …"
        if _fits([cut, _more(len(words))], budget, count_tokens):
            low = middle
        else:
            high = middle - 1
    return " ".join(words[:low]) + " …"


def _fits(lines: Sequence[str], budget: int, count_tokens: CountTokens) -> bool:
    return count_tokens(_joined(lines)) <= budget


def _joined(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _more(count: int) -> str:
    return f"{count} more: show_handoff"


def _on_one_line(text: str) -> str:
    return " ".join(text.split())


def _short(seconds: int) -> str:
    return f"{seconds // 60}m" if seconds % 60 == 0 else f"{seconds}s"
