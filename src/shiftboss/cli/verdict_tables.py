"""What a verifier found, for people. Imported late: it needs rich."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich.console import RenderableType
from rich.table import Column, Table
from rich.text import Text

from shiftboss.cli.output import plain
from shiftboss.cli.tables import Members, cell, plain_table

# The end of a failed command's output: enough to see what is wrong.
OUTPUT_LINES_MAX: Final = 15
VIOLATIONS_SHOWN_MAX: Final = 100

_STYLES: Final = {
    "passed": "green",
    "failed": "bold red",
    "unverifiable": "yellow",
    "waived": "yellow",
}


def checks_table(checks: Sequence[Members]) -> Table:
    """What says nothing is left out of an answer, so every member but the first two may lack. A
    receipt has no messages."""
    table = plain_table(
        *(Column(name, no_wrap=True) for name in ("CHECK", "OUTCOME", "TIME")), "ABOUT"
    )
    for one in checks:
        said = [one.get("subject"), one.get("message") or _ended(one)]
        table.add_row(
            cell(one["check"]),
            cell(one["outcome"], _STYLES.get(one["outcome"], "")),
            cell(_seconds(one.get("duration_ms", 0))),
            Text(plain(": ".join(part for part in said if part))),
        )
    return table


def _ended(check: Members) -> str | None:
    code = check.get("exit_code")
    return None if code is None else f"exit code {code}"


def _seconds(duration_ms: int) -> str:
    return f"{duration_ms / 1000:.1f}s" if duration_ms else ""


def refusal_lines(verdict: Mapping[str, Any]) -> list[RenderableType]:
    """Every violation with what to do about it, and the output of the commands that failed."""
    violations: list[Members] = verdict.get("violations", [])
    lines: list[RenderableType] = []
    for one in violations[:VIOLATIONS_SHOWN_MAX]:
        lines.append(Text(f"- {plain(one['message'])}", style="red"))
        lines.append(Text(f"  {plain(one['hint'])}"))
    if len(violations) > VIOLATIONS_SHOWN_MAX:
        lines.append(Text(f"and {len(violations) - VIOLATIONS_SHOWN_MAX} more; see --json"))
    for check in verdict.get("checks", []):
        if check["outcome"] == "failed" and check.get("output_tail"):
            lines += _output(check)
    return lines


def _output(check: Members) -> list[Text]:
    tail = check["output_tail"].rstrip().splitlines()[-OUTPUT_LINES_MAX:]
    return [
        Text(f"the end of the output of {plain(check.get('subject', 'the command'))}:"),
        *(Text(f"  {plain(line)}", style="dim") for line in tail),
    ]


def claim_lines(claim: dict[str, Any] | None) -> list[RenderableType]:
    """A claim with its verdict; nothing where nobody has claimed yet."""
    if claim is None:
        return []
    words = f"claim {claim['claim_id']} of {claim['worker']}, attempt {claim['epoch']}: "
    lines: list[RenderableType] = [Text(), Text(plain(words + claim["state"]), style="bold")]
    verdict = claim["verdict"]
    if verdict is None:
        return lines
    return [*lines, checks_table(verdict["checks"]), *refusal_lines(verdict)]
