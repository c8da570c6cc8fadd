"""The handoff as a worker reads it: compact JSON, and a few lines on how to go about it.

All that others wrote is inside the JSON, on one line: whatever a title or a path holds, the text
stays short and its instructions stay ours.
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

# JSON leaves these as they are, and yet they end a line for some readers.
_LINE_ENDS = {ord(one): f"\\u{ord(one):04x}" for one in "\x85\u2028\u2029"}

_WRAPPER = """\
# Task {task_id}, contract version {version}

The contract is enforced by the server against the git history; context is there to help.

{handoff}

Work in {repo}, {branch}, on top of commit {base}.
The hash of this contract is {contract_hash}.

1. {start}
2. Change only what files_owned covers. A directory or a glob covers new files, too, but not the
   files that steer tools (conftest.py, package.json, Makefile): those must be listed by name.
   Read what is in files_readonly, and leave it as it is.
3. You need another file? request_scope(bead_id, paths, reason), then wait for the new contract
   version. Do not touch the file before.
4. Blocked? {blocked}
5. Commit everything. Every commit since {base_short} is looked at on its own: a forbidden change
   that a later commit takes back must be taken out of the history.
6. {complete} when all success_criteria hold.

What is checked then, in a clean checkout of your commit: that it descends from the base and is on
the branch; that the diff stays within the contract (renames, deletes, modes and links count); that
no test was removed or switched off; and every criterion that begins with "Tests pass:", "Type check
passes:" or "Command passes:", by running its command without a shell. What you say is not evidence.
A refusal names every violation and leaves the task yours: mend it and call {completion} again.
"""
# A packet has reports of its own, which the operations of the bus do not know.
_REPORTS = {
    "start": "ack_task before you start. "
    "heartbeat while you work, unless your launcher does it for you.",
    "blocked": "Ask escalation.blocked_contact: send_message with a blocked message.",
    "complete": "swarm_complete(bead_id, commit, summary, files_touched)",
    "completion": "swarm_complete",
}
_PACKET_REPORTS = {
    "start": "swarm_register before you start. swarm_progress for every task of the packet.",
    "blocked": "Ask escalation.blocked_contact, and say what fails with swarm_error.",
    "complete": "swarm_packet_complete(packet_id, final_commit, tests_passed, review_passed)",
    "completion": "swarm_packet_complete",
}


class FinishedTask(NamedTuple):
    """A dependency that is done, by its receipt; without one, `commit` is empty."""

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
) -> str:
    """Fewer than 50 lines, always."""
    return _WRAPPER.format(
        task_id=_on_one_line(handoff.contract.task_id),
        version=version,
        handoff=_compact_json(handoff.model_dump(mode="json")),
        repo=_compact_json(repo),
        branch="any branch" if branch is None else f"branch {_compact_json(branch)}",
        base=base_commit,
        base_short=base_commit[:12],
        contract_hash=contract_hash,
        **(_PACKET_REPORTS if is_reserved(handoff.contract.task_id) else _REPORTS),
    )


def what_others_did(finished: Sequence[FinishedTask]) -> str:
    """One line for each dependency, as many as there is room for."""
    return _lines([_line_of(task) for task in finished], OTHERS_CHARACTERS_MAX)


def what_comes_next(waiting: Sequence[tuple[str, str]]) -> str:
    """(task id, title) of the tasks that wait for this one."""
    lines = [f"{task_id}: {_shortened(title)}" for task_id, title in waiting]
    return _lines(lines, NEXT_CHARACTERS_MAX)


def _line_of(task: FinishedTask) -> str:
    files = ", ".join(map(_on_one_line, task.files[:FILES_SHOWN_MAX]))
    hidden = len(task.files) - FILES_SHOWN_MAX
    more = f" and {hidden} more" if hidden > 0 else ""
    changed = f"; changed {files}{more}" if files else ""
    said = _shortened(task.summary) or _shortened(task.title)
    if not task.commit:
        return f"{task.task_id}: {said}"
    return f"{task.task_id}: {said} (commit {task.commit[:12]}{changed})"


def _lines(lines: Sequence[str], characters_max: int) -> str:
    """Whole lines; how many were left out is said in the last one."""
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
