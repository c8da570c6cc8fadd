"""The five classes of failure, and the action for each."""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple

from shiftboss.protocol.policy import Failures
from shiftboss.rules.tasks.permission_denials import (
    DENIED_ONCE,
    TEXT_CHARACTERS_MAX,
    find_denial,
    termination,
)
from shiftboss.rules.tasks.retry import RECOVERABLE_ERRORS, RetryPolicy

FailureClass = Literal["transient", "recoverable", "blocking", "permission_denied", "fatal"]
ActionKind = Literal["retry", "fix", "report", "escalate", "pause", "terminate", "halt"]

# The contract's examples.
EXAMPLES: Final[dict[FailureClass, tuple[str, ...]]] = {
    "transient": ("network_timeout", "api_rate_limit", "ci_runner_busy", "502_bad_gateway"),
    "recoverable": (
        "test_failure",
        "lint_error",
        "build_error",
        "clippy_warning",
        "missing_import",
    ),
    "blocking": (
        "dependency_repo_broken",
        "infrastructure_down",
        "missing_credentials",
        "merge_conflict_with_main",
    ),
    "permission_denied": ("bash_permission_denied", "write_tool_denied", "mkdir_denied"),
    "fatal": (
        "security_vulnerability_introduced",
        "data_corruption_detected",
        "api_key_exposed_in_commit",
        "breaking_change_to_stable_interface",
    ),
}

# The classes of the error types that packets report.
_REPORTED: Final[dict[str, FailureClass]] = {
    **dict.fromkeys(RECOVERABLE_ERRORS, "transient"),
    "build_failure": "recoverable",
    "merge_conflict": "blocking",
    "invalid_manifest": "blocking",
    "permission_denied": "permission_denied",
}
_BY_TYPE: Final[dict[str, FailureClass]] = _REPORTED | {
    name: failure_class for failure_class, names in EXAMPLES.items() for name in names
}

# Text that sounds fatal. It may be quoted from a test or a task, so it only pauses the worker that
# reported it. Only an error type halts the chain.
_SOUNDS_FATAL: Final = re.compile(
    r"(?:api[ _-]?key|secret|private key|password|access token)s? (?:\w+ ){0,3}"
    r"(?:exposed|leaked|committed)|(?:exposed|leaked) (?:\w+ ){0,3}(?:api[ _-]?key|secret)"
    r"|data corruption|corrupted data|database disk image is malformed"
    r"|security vulnerability|breaking change to (?:a |the )?stable",
    re.IGNORECASE,
)
_TRANSIENT: Final = (
    r"rate.?limit|too many requests|\b(?:http|status|code|error)[ :/=.\d]{0,12}(?:429|50[234])\b"
    r"|\b50[234] (?:bad gateway|service|gateway)|bad gateway|gateway time-?out"
    r"|service (?:temporarily )?unavailable|timed[ -]out|\btimeout\b|connection (?:reset|refused)"
    r"|temporary failure in name resolution|runner (?:is )?busy|no runner available|ETIMEDOUT"
    r"|ECONNRESET|network is unreachable"
)
_BLOCKING: Final = (
    r"merge conflict|CONFLICT \(|automatic merge failed|could not apply [0-9a-f]{7}"
    r"|permission denied \(publickey|authentication failed|could not read username"
    r"|(?:missing|invalid|expired|bad) credentials?|credentials? (?:not found|missing|expired)"
    r"|\b401\b.{0,20}unauthorized|unauthorized.{0,20}\b401\b|no space left on device"
    r"|infrastructure (?:is )?down|dependency \S{1,100} is broken"
)
_RECOVERABLE: Final = (
    r"\btests? failed|\bfailed tests?|assertion ?(?:error|failed)|\blint|clippy"
    r"|compil\w+ (?:error|failed)|build failed|cannot find (?:module|name|symbol)"
    r"|ModuleNotFoundError|ImportError|syntax ?error|type ?error"
)
# The first match counts: a leaked key matters more than a timeout in the same text.
_TEXTS: Final[tuple[tuple[FailureClass, re.Pattern[str]], ...]] = (
    ("blocking", _SOUNDS_FATAL),
    ("blocking", re.compile(_BLOCKING, re.IGNORECASE)),
    ("transient", re.compile(_TRANSIENT, re.IGNORECASE)),
    ("recoverable", re.compile(_RECOVERABLE, re.IGNORECASE)),
)


class FailureAction(NamedTuple):
    """`retry_in_seconds` is set only for the kind "retry"."""

    kind: ActionKind
    message: str
    retry_in_seconds: int | None = None


def classify(error_type: str | None, text: str, policy: Failures) -> FailureClass:
    """Classify by the error type, first by the policy's own classes, then by the known ones.

    Without a known type the text decides, but text alone is never fatal. Everything else is for the
    worker to fix, until its attempts run out.
    """
    by_type = _class_of_type(error_type, policy)
    if by_type is not None:
        return by_type
    searched = _searched_text(error_type, text)
    for failure_class, pattern in _TEXTS:
        if failure_class == "transient" and find_denial(searched) is not None:
            return "permission_denied"
        if pattern.search(searched):
            return failure_class
    return "recoverable"


def sounds_fatal(error_type: str | None, text: str, policy: Failures) -> bool:
    """Whether a person should decide if it is fatal: the text suggests it, and no type decides."""
    if _class_of_type(error_type, policy) is not None:
        return False
    return _SOUNDS_FATAL.search(_searched_text(error_type, text)) is not None


def _class_of_type(error_type: str | None, policy: Failures) -> FailureClass | None:
    if error_type is None:
        return None
    if error_type in policy.classes:
        return policy.classes[error_type]
    return _BY_TYPE.get(re.sub(r"[\s-]+", "_", error_type.strip().casefold()))


def _searched_text(error_type: str | None, text: str) -> str:
    searched = f"{error_type or ''}\n{text}"
    if len(searched) <= TEXT_CHARACTERS_MAX:
        return searched
    half = TEXT_CHARACTERS_MAX // 2
    return f"{searched[:half]}\n{searched[-half:]}"


def suspected_fatal_action(task_id: str) -> FailureAction:
    """The action for text that sounds fatal: the worker waits until its contact decides."""
    types = ", ".join(EXAMPLES["fatal"])
    return FailureAction(
        "pause",
        "this sounds fatal, but only an error type halts the chain: BLOCKED until the contact "
        f'answers. If it is fatal: shiftboss failure {task_id} "what happened" --type TYPE '
        f"(one of {types})",
    )


def action_for(
    failure_class: FailureClass,
    attempts: int,
    policy: Failures,
    *,
    tool: str = "the tool",
    error: str = "permission denied",
) -> FailureAction:
    """`attempts` is the number of failures of this class in a row, including the last one."""
    match failure_class:
        case "transient":
            return _after_transient(attempts, policy)
        case "recoverable":
            return _after_recoverable(attempts, policy)
        case "blocking":
            return FailureAction(
                "pause", "cannot continue without help: BLOCKED, the orchestrator is told"
            )
        case "permission_denied":
            return _after_denial(attempts, policy, tool, error)
        case "fatal":
            return FailureAction(
                "halt",
                "all workers of the chain are halted until a human lifts it; consider a revert",
            )


def _after_transient(attempts: int, policy: Failures) -> FailureAction:
    backoff = policy.transient
    retries = RetryPolicy(backoff.max_retries, backoff.initial, backoff.multiplier)
    delay = retries.delay_seconds(attempts - 1)
    if delay is None:
        return FailureAction("escalate", f"still failing after {backoff.max_retries} retries")
    delay = min(delay, backoff.max)
    message = f"retry {attempts} of {backoff.max_retries} in {delay} s"
    return FailureAction("retry", message, retry_in_seconds=delay)


def _after_recoverable(attempts: int, policy: Failures) -> FailureAction:
    limits = policy.recoverable
    count = f"attempt {attempts} of {limits.max_attempts} failed"
    if attempts >= limits.max_attempts:
        return FailureAction("terminate", f"{count}: no more attempts")
    if attempts >= limits.escalate_after:
        return FailureAction("escalate", f"{count}: the worker continues, the orchestrator is told")
    return FailureAction("fix", f"{count}: the worker must fix it")


def _after_denial(attempts: int, policy: Failures, tool: str, error: str) -> FailureAction:
    limit = policy.permission_denied.max_denials
    end = termination(tool, error)
    if attempts < limit:
        instruction = DENIED_ONCE.format(report=end.report)
        return FailureAction(
            "report", f"{instruction}; {limit} denials of {tool} in a row end the worker"
        )
    return FailureAction("terminate", f"{end.report}\n{end.message}")
