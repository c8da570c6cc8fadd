"""An event as a line: its id, its time, its kind, and a sentence."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from rich.console import RenderableType
from rich.table import Column, Table
from rich.text import Text

from shiftboss.cli.common.event_stream import StreamEvent
from shiftboss.cli.common.output import printable
from shiftboss.cli.common.times import local_time

Data = dict[str, Any]

COMMIT_CHARACTERS: Final = 10
ID_CELLS: Final = 5
TIME_CELLS: Final = 19
CLOCK_CELLS: Final = 8
NARROW_COLUMNS: Final = 100
KIND_CELLS: Final = 18


_UNNAMED_ACTORS: Final = (None, "", "server", "local")


class _Members(dict[str, Any]):
    """An event of another version may lack a member: it is shown as `?`."""

    def __missing__(self, name: str) -> str:
        return "?"


BUS_SENTENCES: Final = {
    "bus_worker_joined": "{worker} joined the bus",
    "bus_worker_reset": "{worker} was reset",
    "task_added": "{bead_id} added: {title}",
    "task_queued": "{bead_id} queued",
    "task_assigned": "{bead_id} assigned to {worker}, attempt {epoch}",
    "task_started": "{worker} started {bead_id}",
    "task_progress": "{worker} works on {bead_id}: {state}",
    "task_done": "{bead_id} done by {worker}",
    "task_failed": "{bead_id} failed: {reason}",
    "task_cancelled": "{bead_id} cancelled",
    "task_reopened": "{bead_id} brought back",
    "task_withdrawn": "{bead_id} left the queue: {reason}",
    "review_requested": "{bead_id} waits for a review of {commit}",
    "review_approved": "{by} approved {bead_id} at {commit}",
    "review_rejected": "{by} rejected {bead_id} at {commit}: {reason}",
    "attempt_ended": "{bead_id} taken back from {worker}, attempt {epoch}: {reason}",
    "checkpoint_stored": "{worker} handed {bead_id} over",
    "question_asked": "{worker} asks {contact} about {bead_id}: {question}",
    "question_answered": "{worker} got the answer: {answer}",
    "questions_withdrawn": "the questions about {bead_id} were withdrawn",
    "answer_delivered": "{worker} has read the answer to question {question_id}",
    "handoff_spawned": "{bead_id} has a contract, version {contract_version}",
    "contract_changed": "{bead_id} has a new contract, version {contract_version}: {reason}",
    "contract_disputed": "{worker} disputes the contract of {bead_id} as {kind}: {reason}",
    "claim_made": "{worker} claims that {bead_id} is done, claim {claim_id}",
    "claim_passed": "{verifier} cannot verify claim {claim_id} of {bead_id}: {reason}",
    "claim_escalated": "no verifier can verify claim {claim_id} of {bead_id}: {reason}",
    "claim_retried": "verifiers may try claim {claim_id} of {bead_id} again",
    "claim_accepted": "claim {claim_id} of {bead_id} accepted, receipt {receipt_id}",
    "claim_refused": "claim {claim_id} of {bead_id} refused, {refusals} in a row",
    "scope_requested": "{worker} requests more files for {bead_id}, request {request_id}: {reason}",
    "scope_decided": "scope request {request_id} of {bead_id} is {state}",
    "waiver_granted": "{granted_by} waives {check} of {bead_id}: {reason}",
    "repo_locked": "{bead_id} locked {repo}",
    "files_released": "the run has ended; the files of {released} idle tasks are free",
    "repo_released": "{bead_id} released {repo}: {reason}",
    "milestone_reported": "{worker} on {bead_id}: {line}",
    "ci_run_found": "{bead_id}: CI run #{run_id} of {repo} is for {sha}",
    "ci_passed": "{bead_id}: CI run #{run_id} of {repo} passed at {sha}",
    "ci_restarted": "{bead_id}: CI of {repo} at {sha} was stuck, {outcome}",
    "ci_unreachable": "{bead_id}: CI of {repo} did not answer {errors} times: {reason}",
    "work_paused": "{bead_id} paused: {reason}",
    "work_resumed": "{bead_id} resumed; it was paused: {was}",
    "timeout_warning": "{worker} on {bead_id}: {message}",
    "timeout_step": "{worker} on {bead_id}: {step}, {message}",
    "timeout_escalated": "{worker} on {bead_id}: escalated, {message}",
    "deadlock_suspected": "{worker} on {bead_id} may be stuck in {milestone}",
    "breakage_suspected": "{repo} is red at {sha} after pushes upstream: {reason}",
    "breakage_found": "an upstream push broke {repo}; {task} was opened: {remedy}",
    "breakage_ruled_out": "no upstream push broke {repo}: {reason}",
    "task_parked": "{worker} gave {bead_id} back for now: {reason}",
    "task_landed": "{bead_id} landed on {target}",
    "failure_reported": "{bead_id}: {failure_class} failure, {action}: {message}",
    "chain_halted": "halt {halt_id} because of {bead_id}: {reason}",
    "halt_lifted": "halt {halt_id} lifted: {reason}",
}


def bus_sentence(kind: str, data: dict[str, Any]) -> str:
    return BUS_SENTENCES[kind].format_map(_Members(data))


def sentence(event: StreamEvent) -> str:
    """The event in words. An event of an unknown kind is shown as its data."""
    if event.event in BUS_SENTENCES:
        return printable(bus_sentence(event.event, event.data))
    describe = _SENTENCES.get(event.event)
    if describe is None:
        return printable(json.dumps(event.data, ensure_ascii=False))
    return printable(describe(event.data))


def _created(data: Data) -> str:
    feature = data.get("feature")
    return f"swarm {data.get('swarm_id')} created" + (f": {feature}" if feature else "")


def _registered(data: Data) -> str:
    text = f"packet {data.get('packet_id')}: {data.get('packet_name')} registered, "
    text += f"{data.get('tasks_total')} tasks"
    attempt = data.get("attempt")
    return f"{text}, attempt {attempt}" if attempt not in (None, 1) else text


def _progress(data: Data) -> str:
    text = f"packet {data.get('packet_id')}: {data.get('task_id')} {data.get('status')}, "
    return text + f"{data.get('tasks_completed')} of {data.get('tasks_total')}{_at(data, 'commit')}"


def _complete(data: Data) -> str:
    left = data.get("remaining_workers")
    text = f"packet {data.get('packet_id')}: complete{_at(data, 'final_commit')}"
    return f"{text}, {left} {'worker' if left == 1 else 'workers'} to go"


def _error(data: Data) -> str:
    text = f"packet {data.get('packet_id')}: {data.get('task_id')} failed with "
    text += f"{data.get('error_type')}: {data.get('message')}"
    seconds = data.get("retry_in_seconds")
    return f"{text}; no retry" if seconds is None else f"{text}; retry in {seconds} s"


def _retry_due(data: Data) -> str:
    retry = f"retry {data.get('attempt')} of {data.get('task_id')}"
    return f"packet {data.get('packet_id')}: {retry} is due"


def _swarm_complete(data: Data) -> str:
    text = f"swarm {data.get('swarm_id')} complete"
    counts = [f"{data[name]} {name}" for name in ("done", "failed", "cancelled") if data.get(name)]
    return f"{text}: {', '.join(counts)}" if counts else text


def _swarm_reopened(data: Data) -> str:
    return f"swarm {data.get('swarm_id')} has something to do again"


def _agent_run_ended(data: Data) -> str:
    text = f"process {data.get('process')} of {data.get('agent')} on {data.get('bead_id')} ended"
    return text if data.get("ended") in (None, "ended") else f"{text}: {data['ended']}"


def _ci_failed(data: Data) -> str:
    jobs = "; ".join(str(job.get("message")) for job in data.get("jobs", []))
    run = f"CI run #{data.get('run_id')} of {data.get('repo')} failed"
    return f"{data.get('bead_id')}: {run}{_at(data, 'sha')}: {jobs}"


def _budget_set(data: Data) -> str:
    tokens, dollars = data.get("tokens"), data.get("dollars")
    limits = [f"{tokens:,} tokens"] if isinstance(tokens, int) else []
    limits += [f"${dollars:,.2f}"] if isinstance(dollars, int | float) else []
    return f"{_subject(data)} may use {' and '.join(limits) or 'any amount'}"


def _budget_exceeded(data: Data) -> str:
    whose = "the swarm" if data.get("scope") == "swarm" else data.get("bead_id")
    spent = f"{data.get('spent')} of {data.get('limit')} {data.get('unit')}"
    return f"the budget of {whose} is used up: {spent}"


def _paused(data: Data) -> str:
    return f"{_subject(data)} is paused: {data.get('reason')}"


def _resumed(data: Data) -> str:
    return f"{_subject(data)} is resumed, {data.get('how')}"


def _subject(data: Data) -> str:
    return str(data.get("bead_id") or "the swarm")


def _at(data: Data, member: str) -> str:
    commit = data.get(member)
    return f", commit {str(commit)[:COMMIT_CHARACTERS]}" if commit else ""


_SENTENCES: Final[dict[str, Callable[[Data], str]]] = {
    "swarm_created": _created,
    "worker_registered": _registered,
    "progress_update": _progress,
    "worker_complete": _complete,
    "worker_error": _error,
    "retry_due": _retry_due,
    "swarm_complete": _swarm_complete,
    "swarm_reopened": _swarm_reopened,
    "agent_run_ended": _agent_run_ended,
    "ci_failed": _ci_failed,
    "budget_set": _budget_set,
    "budget_exceeded": _budget_exceeded,
    "dispatch_paused": _paused,
    "dispatch_resumed": _resumed,
}


_STYLES: Final = {
    "worker_error": "red",
    "retry_due": "yellow",
    "worker_complete": "green",
    "swarm_complete": "bold green",
    "claim_accepted": "green",
    "claim_refused": "red",
    "claim_escalated": "bold red",
    "waiver_granted": "yellow",
    "contract_disputed": "yellow",
    "ci_passed": "green",
    "ci_failed": "red",
    "work_paused": "yellow",
    "chain_halted": "bold red",
    "budget_exceeded": "bold red",
    "dispatch_paused": "yellow",
    "task_landed": "bold green",
}


def _with_actor(event: StreamEvent) -> str:
    """The actor is named if it has a name: not a duty of the server, and not an anonymous local
    caller."""
    text = sentence(event)
    return text if event.actor in _UNNAMED_ACTORS else f"{text} [by {printable(event.actor)}]"


def event_line(event: StreamEvent, *, columns: int | None) -> RenderableType:
    """One line; on a terminal with so many columns, a long sentence wraps within its column."""
    style = _STYLES.get(event.event, "")
    kind, text = printable(event.event), _with_actor(event)
    time = local_time(event.at) if event.at else ""
    if columns is None:
        return Text(f"{event.id:>{ID_CELLS}}  {time:<{TIME_CELLS}}  {kind:<{KIND_CELLS}}  {text}")
    time_cells = TIME_CELLS if columns >= NARROW_COLUMNS else CLOCK_CELLS
    line = Table.grid(
        Column(width=ID_CELLS, justify="right", no_wrap=True),
        Column(width=time_cells, no_wrap=True),
        Column(width=KIND_CELLS, no_wrap=True),
        Column(overflow="fold"),
        padding=(0, 2, 0, 0),
    )
    clock = Text(time[-time_cells:], style="dim")
    line.add_row(Text(str(event.id)), clock, Text(kind, style=style), Text(text))
    return line
