"""The handoff as a worker reads it: compact JSON, with short instructions around it.

All text from other sources is inside the JSON, on one line. Whatever a title or a path contains, it
cannot add instructions or make the text long.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from shiftboss.protocol.handoffs import WorkerHandoff
from shiftboss.rules.tasks.tasks import is_reserved

OTHERS_CHARACTERS_MAX = 6000
NEXT_CHARACTERS_MAX = 2000
SUMMARY_CHARACTERS_MAX = 600
FILES_SHOWN_MAX = 8

# JSON does not escape these characters, although some readers treat them as line ends.
_LINE_ENDS = {ord(character): f"\\u{ord(character):04x}" for character in "\x85\u2028\u2029"}

_WRAPPER = """\
# Task {task_id}, contract version {version}

The server enforces the contract against the git history; the context is only there to help.

{handoff}

Work in {repo}, {branch}, on top of commit {base}.
The hash of this contract is {contract_hash}.
{expectations}
1. {start}
2. {change}
3. You need another file? request_scope(bead_id, paths, reason), then wait for the new contract
   version. Do not touch the file before that.
4. Blocked? {blocked}
5. {commit}
6. {complete} when all success_criteria hold.

The server then checks a clean checkout of your commit: that it descends from the base and is on the
branch; that the diff stays within the contract (renames, deletes, modes and links count); that no
test was removed or disabled; and every criterion that starts with "Tests pass:", "Type check
passes:" or "Command passes:", by running its command without a shell. Your word is not evidence.
Tests that you change must also pass as they were in the base, unless the contract changes what they
expect. Some tests are sabotaged and must fail then; some of your lines are changed, which the tests
must notice: write tests that fail without your work.
A refusal names every violation, and the task stays yours: fix it and call {completion} again.
"""
_CHANGE = """\
Change only what files_owned covers. A directory or a glob also covers new files, but not files
   that configure tools (conftest.py, package.json, Makefile): those must be listed by name.
   You may read files_readonly, but do not change them."""
_COMMIT = """\
Commit everything. Every commit since {base_short} is checked on its own: a forbidden change that
   a later commit reverts must be removed from the history."""
_EXPECTATIONS = """This contract changes what these tests of the base expect: {patterns}.
Their versions of the base no longer have to pass.
"""
# For a task that owns no files.
_CHANGE_NOTHING = "Change nothing: this task only reads, and files_owned is empty."
_COMMIT_NOTHING = "Commit nothing. Claim the commit {base}; your result is the summary."
# A packet uses its own reports instead of the operations of the bus.
_REPORTS = {
    "start": "ack_task before you start. "
    "heartbeat while you work, unless your launcher does it for you.",
    "blocked": "Ask escalation.blocked_contact: send_message with a blocked message.\n"
    "   Is the contract wrong, or can it not be met? dispute_contract(bead_id, kind, reason,\n"
    "   evidence): that is not a failure.",
    "complete": "swarm_complete(bead_id, commit, summary, files_touched)",
    "completion": "swarm_complete",
}
_PACKET_REPORTS = {
    "start": "swarm_register before you start. swarm_progress for every task of the packet.",
    "blocked": "Ask escalation.blocked_contact, and report what fails with swarm_error.",
    "complete": "swarm_packet_complete(packet_id, final_commit, tests_passed, review_passed)",
    "completion": "swarm_packet_complete",
}


class FinishedTask(NamedTuple):
    """A finished dependency, from its receipt. Without a receipt, `commit` is empty."""

    task_id: str
    title: str
    summary: str
    commit: str
    files: Sequence[str]


def render_handoff(
    handoff: WorkerHandoff,
    *,
    version: int,
    contract_hash: str,
    base_commit: str,
    branch: str | None,
    repo: str,
    expectations_change: Sequence[str] = (),
) -> str:
    """The text that a worker reads. It always has fewer than 50 lines."""
    only_reads = not handoff.contract.files_owned
    commit = _COMMIT_NOTHING if only_reads else _COMMIT
    patterns = _compact_json(list(expectations_change))
    return _WRAPPER.format(
        task_id=_on_one_line(handoff.contract.task_id),
        version=version,
        handoff=_compact_json(handoff.model_dump(mode="json")),
        repo=_compact_json(repo),
        branch="any branch" if branch is None else f"branch {_compact_json(branch)}",
        base=base_commit,
        change=_CHANGE_NOTHING if only_reads else _CHANGE,
        commit=commit.format(base=base_commit, base_short=base_commit[:12]),
        contract_hash=contract_hash,
        expectations=_EXPECTATIONS.format(patterns=patterns) if expectations_change else "",
        **(_PACKET_REPORTS if is_reserved(handoff.contract.task_id) else _REPORTS),
    )


def what_others_did(finished: Sequence[FinishedTask]) -> str:
    """One line for each dependency, as many as fit."""
    return _lines([_line_of(task) for task in finished], OTHERS_CHARACTERS_MAX)


def what_comes_next(waiting: Sequence[tuple[str, str]]) -> str:
    """One line for each task that waits for this one. `waiting` has task ids and titles."""
    lines = [f"{task_id}: {_shortened(title)}" for task_id, title in waiting]
    return _lines(lines, NEXT_CHARACTERS_MAX)


def _line_of(task: FinishedTask) -> str:
    files = ", ".join(map(_on_one_line, task.files[:FILES_SHOWN_MAX]))
    hidden = len(task.files) - FILES_SHOWN_MAX
    more = f" and {hidden} more" if hidden > 0 else ""
    changed = f"; changed {files}{more}" if files else ""
    summary = _shortened(task.summary) or _shortened(task.title)
    if not task.commit:
        return f"{task.task_id}: {summary}"
    return f"{task.task_id}: {summary} (commit {task.commit[:12]}{changed})"


def _lines(lines: Sequence[str], characters_max: int) -> str:
    """Whole lines. The last one says how many were left out."""
    kept: list[str] = []
    room = characters_max - 40
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            kept.append(f"and {len(lines) - len(kept)} more tasks")
            break
        kept.append(line)
    return "\n".join(kept)


def _shortened(text: str) -> str:
    line = _on_one_line(text)
    if len(line) <= SUMMARY_CHARACTERS_MAX:
        return line
    return line[: SUMMARY_CHARACTERS_MAX - 1] + "…"


def _on_one_line(text: str) -> str:
    return " ".join(text.split())


def _compact_json(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.translate(_LINE_ENDS)
