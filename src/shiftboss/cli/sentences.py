"""Events in words."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from shiftboss.cli.bus_sentences import BUS_SENTENCES, bus_sentence
from shiftboss.cli.event_stream import StreamEvent
from shiftboss.cli.output import plain

Data = dict[str, Any]
COMMIT_CHARACTERS: Final = 10


def sentence(event: StreamEvent) -> str:
    """What happened. An event of a kind that is not known here is shown as its data."""
    if event.event in BUS_SENTENCES:
        return plain(bus_sentence(event.event, event.data))
    in_words = _SENTENCES.get(event.event)
    if in_words is None:
        return plain(json.dumps(event.data, ensure_ascii=False))
    return plain(in_words(event.data))


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
    return f"{text}; no retry" if seconds is None else f"{text}; retry_scheduled in {seconds} s"


def _retry_due(data: Data) -> str:
    retry = f"retry {data.get('attempt')} of {data.get('task_id')}"
    return f"packet {data.get('packet_id')}: {retry} is due"


def _swarm_complete(data: Data) -> str:
    return f"swarm {data.get('swarm_id')} complete"


def _ci_failed(data: Data) -> str:
    jobs = "; ".join(str(one.get("message")) for one in data.get("jobs", []))
    run = f"CI run #{data.get('run_id')} of {data.get('repo')} has failed"
    return f"{data.get('bead_id')}: {run}{_at(data, 'sha')}: {jobs}"


def _budget_set(data: Data) -> str:
    tokens, dollars = data.get("tokens"), data.get("dollars")
    limits = [f"{tokens:,} tokens"] if isinstance(tokens, int) else []
    limits += [f"${dollars:,.2f}"] if isinstance(dollars, int | float) else []
    return f"{_whose(data)} may use {' and '.join(limits) or 'what it needs'}"


def _budget_exceeded(data: Data) -> str:
    whose = "the swarm" if data.get("scope") == "swarm" else data.get("bead_id")
    spent = f"{data.get('spent')} of {data.get('limit')} {data.get('unit')}"
    return f"the budget of {whose} is used up: {spent}"


def _paused(data: Data) -> str:
    return f"{_whose(data)} is not handed out: {data.get('reason')}"


def _resumed(data: Data) -> str:
    return f"{_whose(data)} is handed out again, {data.get('how')}"


def _whose(data: Data) -> str:
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
    "ci_failed": _ci_failed,
    "budget_set": _budget_set,
    "budget_exceeded": _budget_exceeded,
    "dispatch_paused": _paused,
    "dispatch_resumed": _resumed,
}
