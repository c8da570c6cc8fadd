"""Events of the bus in words."""

from __future__ import annotations

from typing import Any, Final


class _Members(dict[str, Any]):
    """An event of another version may lack a member."""

    def __missing__(self, name: str) -> str:
        return "?"


BUS_SENTENCES: Final = {
    "bus_worker_joined": "{worker} joined the bus",
    "bus_worker_reset": "{worker} was freed",
    "task_added": "{bead_id} added: {title}",
    "task_queued": "{bead_id} queued",
    "task_assigned": "{bead_id} given to {worker}, attempt {epoch}",
    "task_started": "{worker} started {bead_id}",
    "task_progress": "{worker} is at work on {bead_id}: {state}",
    "task_done": "{bead_id} done by {worker}",
    "task_failed": "{bead_id} failed: {reason}",
    "task_cancelled": "{bead_id} cancelled",
    "attempt_ended": "{bead_id} taken back from {worker}, attempt {epoch}: {reason}",
    "checkpoint_stored": "{worker} handed {bead_id} over",
    "question_asked": "{worker} asks {contact} about {bead_id}: {question}",
    "question_answered": "{worker} is answered: {answer}",
    "handoff_spawned": "{bead_id} has a contract, version {contract_version}",
    "contract_changed": "{bead_id} has a new contract, version {contract_version}: {reason}",
    "claim_made": "{worker} says that {bead_id} is done, claim {claim_id}",
    "claim_accepted": "claim {claim_id} of {bead_id} is proven, receipt {receipt_id}",
    "claim_refused": "claim {claim_id} of {bead_id} is refused, {refusals} in a row",
    "scope_requested": "{worker} asks for more files for {bead_id}, request {request_id}: {reason}",
    "scope_decided": "scope request {request_id} of {bead_id} is {state}",
    "waiver_granted": "{granted_by} waives {check} of {bead_id}: {reason}",
    "repo_locked": "{bead_id} works on {repo}",
    "repo_released": "{repo} is free of {bead_id}: {reason}",
    "milestone_reported": "{worker} on {bead_id}: {line}",
    "ci_run_found": "{bead_id}: CI run #{run_id} of {repo} is the one of {sha}",
    "ci_passed": "{bead_id}: CI run #{run_id} of {repo} has passed at {sha}",
    "ci_restarted": "{bead_id}: CI of {repo} at {sha} stood still, {outcome}",
    "ci_unreachable": "{bead_id}: CI of {repo} gave no answer {errors} times: {reason}",
    "work_paused": "{bead_id} pauses: {reason}",
    "work_resumed": "{bead_id} goes on; it had paused: {was}",
    "timeout_warning": "{worker} on {bead_id}: {message}",
    "timeout_step": "{worker} on {bead_id}: {step}, {message}",
    "timeout_escalated": "{worker} on {bead_id}: escalated, {message}",
    "deadlock_suspected": "{worker} on {bead_id} may be stuck in {milestone}",
    "breakage_suspected": "{repo} is red at {sha} after pushes upstream: {reason}",
    "breakage_found": "{repo} was broken from upstream; {task} was opened: {remedy}",
    "breakage_ruled_out": "{repo} was not broken from upstream: {reason}",
    "task_parked": "{worker} gives {bead_id} back for now: {reason}",
    "task_landed": "{bead_id} is on {target}",
    "failure_reported": "{bead_id}: {failure_class} failure, {action}: {message}",
    "chain_halted": "halt {halt_id} because of {bead_id}: {reason}",
    "halt_lifted": "halt {halt_id} is lifted: {reason}",
}


def bus_sentence(kind: str, data: dict[str, Any]) -> str:
    return BUS_SENTENCES[kind].format_map(_Members(data))
