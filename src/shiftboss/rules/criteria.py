"""Success criteria: which of them are commands, and what the end of a command says.

Commands are run without a shell, so what only a shell understands is refused when the contract is
made, not when the work is done.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import Final, Literal

from shiftboss.rules.runner_summaries import counted

CriterionKind = Literal["tests", "type_check", "command"]

_KINDS: Final[dict[str, CriterionKind]] = {
    "tests pass": "tests",
    "type check passes": "type_check",
    "command passes": "command",
}
_CRITERION: Final = re.compile(
    r"\s*(tests\s+pass|type\s+check\s+passes|command\s+passes)\s*:(.*)",
    re.IGNORECASE | re.DOTALL,
)
_QUOTED: Final = re.compile(r"""\\.|'[^']*'|"(?:\\.|[^"\\])*\"""", re.DOTALL)
_OPERATOR: Final = re.compile(r"&&|\|\||[;|&<>()\n\r]")
_EXPANSION: Final = re.compile(r"`|\$[A-Za-z_({]")
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")


@dataclass(frozen=True, slots=True)
class CheckableCriterion:
    kind: CriterionKind
    argv: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CommandResult:
    """How a command ended. `exit_code` is minus the signal that killed it, and None when it did
    not end by itself or was never started; `message` says it in words."""

    exit_code: int | None
    timed_out: bool
    out_of_memory: bool
    output_tail: str
    duration_ms: int
    message: str


def parse_criterion(text: str) -> CheckableCriterion | None:
    """None when no command is named, so that nothing can be checked. ValueError when the command
    needs a shell."""
    match = _CRITERION.fullmatch(text)
    if match is None:
        return None
    kind = _KINDS[" ".join(match[1].lower().split())]
    return CheckableCriterion(kind, parse_command(match[2]))


def parse_command(text: str) -> tuple[str, ...]:
    """The words of a command line. ValueError when it needs a shell."""
    command = text.strip()
    found = _EXPANSION.search(_QUOTED.sub(_expanded_part, command))
    if found is None:
        found = _OPERATOR.search(_QUOTED.sub("", command))
    if found is not None:
        raise _needs_shell(command, f"has {found[0]!r}")
    try:
        argv = tuple(shlex.split(command))
    except ValueError as exc:
        raise _needs_shell(command, f"cannot be split into words ({exc})") from exc
    if not argv or not argv[0]:
        raise _needs_shell(command, "names no program")
    if _ASSIGNMENT.match(argv[0]):
        raise _needs_shell(command, "begins with an assignment")
    return argv


def objection(
    criterion: CheckableCriterion, result: CommandResult, ran_at_base: int | None = None
) -> str | None:
    """Why a command that was run does not count as a pass. Exit code 0 does, except for tests of
    which none passed, or fewer than `ran_at_base`."""
    if result.exit_code != 0:
        return result.message
    if criterion.kind != "tests":
        return None
    now = counted(result.output_tail)
    if now is not None and now.passed == 0:
        return "no test passed: all were skipped, or none was found"
    if not ran_at_base:
        return None
    before = "1 test" if ran_at_base == 1 else f"{ran_at_base} tests"
    if now is None:
        return f"{before} ran at the base, and the output tells of none now: was the run cut off?"
    if now.passed < ran_at_base:
        return (
            f"{before} ran at the base, only {now.passed} pass now: were tests removed or skipped?"
        )
    return None


def _expanded_part(quoted: re.Match[str]) -> str:
    """A shell looks for variables and commands inside double quotes too."""
    text = quoted[0]
    return re.sub(r"\\.", "", text, flags=re.DOTALL) if text.startswith('"') else ""


def _needs_shell(command: str, what: str) -> ValueError:
    return ValueError(
        f"{command!r} {what}: commands are run without a shell; "
        "split it into several criteria, or put it into a script and name that"
    )
