"""Success criteria: which of them are commands.

Commands run without a shell, so a command that needs one is refused when the contract is made, not
when the work is done. For tests, exit code 0 is not enough; see `test_runs`.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import Final, Literal

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
    """How a command ended. `exit_code` is the negative signal number if a signal killed it, None if
    it was stopped or never started. `message` describes the end, `sandbox` what contained it.
    `sandbox_is_missing`: it was not run, because the policy requires a sandbox.
    `program_is_missing`: this machine has no program of its name."""

    exit_code: int | None
    timed_out: bool
    out_of_memory: bool
    output_tail: str
    duration_ms: int
    message: str
    sandbox: str | None = None
    sandbox_is_missing: bool = False
    program_is_missing: bool = False

    @property
    def missing(self) -> str | None:
        """What this machine lacks, if the command was not run because of that."""
        return self.message if self.sandbox_is_missing or self.program_is_missing else None

    @property
    def is_contained(self) -> bool:
        return self.sandbox is not None and not self.sandbox.startswith("none")


def parse_criterion(text: str) -> CheckableCriterion | None:
    """None if the criterion names no command, so that it cannot be checked.

    Raises ValueError if the command needs a shell.
    """
    match = _CRITERION.fullmatch(text)
    if match is None:
        return None
    kind = _KINDS[" ".join(match[1].lower().split())]
    return CheckableCriterion(kind, parse_command(match[2]))


def parse_command(text: str) -> tuple[str, ...]:
    """The arguments of a command line. Raises ValueError if it needs a shell."""
    command = text.strip()
    shell_syntax = _EXPANSION.search(_QUOTED.sub(_expanded_part, command))
    if shell_syntax is None:
        shell_syntax = _OPERATOR.search(_QUOTED.sub("", command))
    if shell_syntax is not None:
        raise _needs_shell(command, f"contains {shell_syntax[0]!r}")
    try:
        argv = tuple(shlex.split(command))
    except ValueError as exc:
        raise _needs_shell(command, f"cannot be split into words ({exc})") from exc
    if not argv or not argv[0]:
        raise _needs_shell(command, "names no program")
    if _ASSIGNMENT.match(argv[0]):
        raise _needs_shell(command, "starts with an assignment")
    return argv


def _expanded_part(quoted: re.Match[str]) -> str:
    """Keep text in double quotes, because a shell expands variables and commands there too."""
    text = quoted[0]
    return re.sub(r"\\.", "", text, flags=re.DOTALL) if text.startswith('"') else ""


def _needs_shell(command: str, what: str) -> ValueError:
    return ValueError(
        f"{command!r} {what}, but commands run without a shell; "
        "split it into several criteria, or put it into a script and name the script"
    )
