"""Finds the success criteria in the description of a task."""

from __future__ import annotations

import re
from collections.abc import Iterator

from shiftboss.protocol.handoffs import CRITERIA_MAX
from shiftboss.rules.claims.criteria import parse_criterion

CRITERION_CHARACTERS_MAX = 2000

_ITEM = re.compile(r"\s*(?:[-*+•]|\d{1,3}[.)])\s+(?:\[[ xX]\]\s+)?(?P<text>\S.*)")
_CHECKABLE = re.compile(
    r"[\W_]{0,6}(?P<kind>tests\s+pass|type\s+check\s+passes|command\s+passes)[*_]*:[*_]*\s*(?P<command>.*)",
    re.IGNORECASE,
)
_KINDS = {"tests": "Tests pass", "type": "Type check passes", "command": "Command passes"}
_HEADING = re.compile(
    r"[\W_]{0,8}(?:success criteria|acceptance criteria|done when)[*_]*\s*:?[*_]*\s*(?P<rest>.*)",
    re.IGNORECASE,
)
_ANY_HEADING = re.compile(r"\s{0,3}#{1,6}\s|\s*\*\*[^*]+\*\*:?\s*$")
_FENCE = re.compile(r"\s*(?:```|~~~)")


def described_criteria(description: str) -> list[str]:
    """Lines such as `Tests pass: COMMAND` anywhere, and the items under "Success criteria",
    "Acceptance criteria" or "Done when".

    Raises ValueError for a command that needs a shell, so that it is not mistaken for a criterion
    that is checked.
    """
    criteria: dict[str, None] = {}
    for text in _criteria_in(description.splitlines()):
        if len(text) > CRITERION_CHARACTERS_MAX:
            raise ValueError(f"a criterion must have at most {CRITERION_CHARACTERS_MAX} characters")
        parse_criterion(text)
        criteria[text] = None
    if len(criteria) > CRITERIA_MAX:
        raise ValueError(
            f"{len(criteria)} success criteria are too many; the limit is {CRITERIA_MAX}"
        )
    return list(criteria)


def _criteria_in(lines: list[str]) -> Iterator[str]:
    section: list[str] | None = None
    for line in [*lines, "# end"]:
        heading = _heading(line)
        if section is not None and (heading is not None or _ends_section(line, section)):
            yield from (_plain(text) for text in section if text)
            section = None
        if heading is not None:
            section = [heading, ""] if heading else []
        elif checkable := _CHECKABLE.match(_item_text(line)):
            # Also if the command is missing, so that parsing it reports the problem.
            yield _command_line(checkable)
        elif section is not None:
            _add(line, section)


def _heading(line: str) -> str | None:
    """The text after a heading such as "Done when:", possibly empty. None if it is no heading."""
    match = _HEADING.match(line)
    if match is None:
        return None
    rest = match.group("rest").strip()
    if line.lstrip().startswith("#"):
        return ""
    return rest if not rest or ":" in line[: match.start("rest")] else None


def _ends_section(line: str, section: list[str]) -> bool:
    """A section ends at another heading, or at a new paragraph after its list."""
    if _ANY_HEADING.match(line):
        return True
    is_paragraph = bool(line.strip()) and not line[0].isspace() and not _ITEM.match(line)
    return is_paragraph and bool(section) and section[-1] == ""


def _add(line: str, section: list[str]) -> None:
    """An item or a line is a criterion; an indented line continues the item above it.

    A blank line is kept as an empty string, because the next paragraph ends the section.
    """
    if _FENCE.match(line):
        return
    if not line.strip():
        if section:
            section.append("")
    elif line[0].isspace() and not _ITEM.match(line) and section and section[-1]:
        section[-1] += " " + line.strip()
    else:
        section.append(_item_text(line))


def _item_text(line: str) -> str:
    item = _ITEM.match(line)
    return (item.group("text") if item else line).strip()


def _command_line(checkable: re.Match[str]) -> str:
    kind = _KINDS[checkable.group("kind").split()[0].lower()]
    command = checkable.group("command").strip()
    if len(command) > 1 and command[0] == command[-1] == "`":
        command = command.strip("`").strip()
    return f"{kind}: {command}"


def _plain(text: str) -> str:
    return " ".join(text.split())
