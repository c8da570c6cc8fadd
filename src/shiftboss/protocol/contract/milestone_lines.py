"""Milestone reports as lines of text, in the formats of the completion contract.

    WORKING: Implementing AX token types in vm/types/ax.rs [substate: writing_new_code]
    PUSHED_TO_CI: alphavm commit a1b2c3d - CI run #451
    FIXING_CI: test job - missing mock for CreditPool [attempt: 2/5]
    DONE: alphavm CI run #452 all green, radicle-push: success
    BLOCKED: acdc-core is red
    BLOCKED_PERMISSION: Bash - Permission to use Bash has been auto-denied

The parser only searches from left to right, so no input takes long.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final, NamedTuple, get_args

from pydantic import TypeAdapter, ValidationError

from shiftboss.errors import InvalidRequest
from shiftboss.protocol.contract.milestones import (
    Blocked,
    BlockedPermission,
    Done,
    FixingCi,
    MilestoneReport,
    MilestoneWord,
    PushedToCi,
    Working,
)

CHARACTERS_MAX: Final = 5000
FORMATS: Final[dict[MilestoneWord, str]] = {
    "WORKING": "WORKING: {what you are doing}",
    "PUSHED_TO_CI": "PUSHED_TO_CI: {repo} commit {hash} - CI run #{id}",
    "FIXING_CI": "FIXING_CI: {failed job} - {diagnosis}",
    "DONE": "DONE: {repo} CI run #{id} all green, {sync job}: success",
    "BLOCKED": "BLOCKED: {reason}",
    "BLOCKED_PERMISSION": "BLOCKED_PERMISSION: {tool} - {error}",
}

_WORDS: Final = get_args(MilestoneWord)
_LIST_MARKS: Final = " \t\r\n-*•"
_DASH: Final = " - "
_RUN: Final = " CI run "


class _Suffix(NamedTuple):
    """`[key: value]`, or `[key: 2/5]` for a suffix with two members."""

    key: str
    members: tuple[str, ...]


_SUFFIXES: Final[dict[str, tuple[_Suffix, ...]]] = {
    "WORKING": (
        _Suffix("substate", ("substate",)),
        _Suffix("files", ("files_modified", "estimated_files")),
    ),
    "PUSHED_TO_CI": (
        _Suffix("substate", ("substate",)),
        _Suffix("job", ("current_job",)),
        _Suffix("jobs", ("jobs_passed", "jobs_total")),
    ),
    "FIXING_CI": (
        _Suffix("substate", ("substate",)),
        _Suffix("category", ("error_category",)),
        _Suffix("attempt", ("attempt", "max_attempts")),
    ),
}


@cache
def _report_type() -> TypeAdapter[MilestoneReport]:
    return TypeAdapter(MilestoneReport)


def milestone_word(text: str) -> MilestoneWord | None:
    """The milestone that the line starts with, or None if it is not a milestone line."""
    word, colon, _ = text.lstrip(_LIST_MARKS)[:30].partition(":")
    return next((known for known in _WORDS if colon and known == word), None)


def parse_line(text: str) -> MilestoneReport:
    """Raises InvalidRequest, which names the missing or invalid members."""
    if len(text) > CHARACTERS_MAX:
        raise InvalidRequest(f"line: must have at most {CHARACTERS_MAX} characters", field="line")
    word = milestone_word(text)
    if word is None:
        raise InvalidRequest(
            f"line: must start with one of {', '.join(_WORDS)}",
            field="line",
            hint="; ".join(FORMATS.values()),
        )
    rest = " ".join(text.lstrip(_LIST_MARKS)[len(word) + 1 :].split())
    rest, members = _cut_suffixes(word, rest)
    members |= _PARSERS[word](rest)
    missing = [name for name, value in members.items() if value == ""]
    if missing:
        raise InvalidRequest(
            f"{word}: missing {', '.join(missing)}",
            field=missing[0],
            hint=f"the format is {FORMATS[word]}",
            facts={"missing": missing},
        )
    try:
        return _report_type().validate_python(members | {"milestone": word})
    except ValidationError as error:
        raise _invalid_line(word, error) from None


def render_line(report: MilestoneReport) -> str:
    parts = [f"{report.milestone}: {_body(report)}"]
    for suffix in _SUFFIXES.get(report.milestone, ()):
        values = [getattr(report, member) for member in suffix.members]
        if values[0] is not None:
            parts.append(f"[{suffix.key}: {'/'.join(map(str, values))}]")
    return " ".join(parts)


def _invalid_line(word: MilestoneWord, error: ValidationError) -> InvalidRequest:
    first = error.errors(include_url=False, include_context=False)[0]
    field = str(first["loc"][-1]) if len(first["loc"]) > 1 else "line"
    return InvalidRequest(
        f"{word}: {field}: {first['msg'].removeprefix('Value error, ')}",
        field=field,
        hint=f"the format is {FORMATS[word]}",
    )


def _cut_suffixes(word: str, text: str) -> tuple[str, dict[str, Any]]:
    members: dict[str, Any] = {}
    suffixes = {suffix.key: suffix for suffix in _SUFFIXES.get(word, ())}
    while text.endswith("]"):
        before, bracket, inside = text[:-1].rpartition("[")
        key, colon, value = inside.partition(": ")
        suffix = suffixes.pop(key, None)
        if not bracket or not colon or suffix is None or (before and before[-1] != " "):
            break
        members |= _suffix_members(suffix, value)
        text = before.rstrip()
    return text, members


def _suffix_members(suffix: _Suffix, value: str) -> dict[str, Any]:
    if len(suffix.members) == 1:
        return {suffix.members[0]: value}
    pair = value.split("/")
    if len(pair) != 2 or not all(map(_is_small_number, pair)):
        raise InvalidRequest(
            f"[{suffix.key}: {value[:50]}] must be two numbers such as 2/5", field=suffix.members[0]
        )
    return dict(zip(suffix.members, map(int, pair), strict=True))


def _is_small_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 7


def _working(rest: str) -> dict[str, Any]:
    return {"description": rest}


def _pushed(rest: str) -> dict[str, Any]:
    pushed, _, run = f" {rest} ".partition(f" -{_RUN}")
    repo, _, commit = f"{pushed} ".partition(" commit ")
    return {"repo": repo.strip(), "commit": commit.strip().lower(), "ci_run": _run_id(run)}


def _fixing(rest: str) -> dict[str, Any]:
    job, diagnosis = _cut_at_dash(rest)
    return {"failed_job": job, "diagnosis": diagnosis}


def _done(rest: str) -> dict[str, Any]:
    repo, _, rest = f" {rest} ".partition(_RUN)
    run, _, rest = rest.strip().partition(" ")
    members: dict[str, Any] = {"repo": repo.strip(), "ci_run": _run_id(run.rstrip(","))}
    jobs, _, sync = rest.partition(", ")
    if jobs in ("all green", "not all green"):
        members["all_green"] = jobs == "all green"
    else:
        sync = rest
    if sync.casefold() == "radicle synced":
        members["sync_status"] = "success"
    elif sync:
        members["sync_job"], _, members["sync_status"] = sync.rpartition(": ")
    return members


def _blocked(rest: str) -> dict[str, Any]:
    return {"reason": rest}


def _blocked_permission(rest: str) -> dict[str, Any]:
    tool, error = _cut_at_dash(rest)
    return {"tool": tool, "error": error}


_PARSERS: Final[dict[MilestoneWord, Callable[[str], dict[str, Any]]]] = {
    "WORKING": _working,
    "PUSHED_TO_CI": _pushed,
    "FIXING_CI": _fixing,
    "DONE": _done,
    "BLOCKED": _blocked,
    "BLOCKED_PERMISSION": _blocked_permission,
}


def _body(report: MilestoneReport) -> str:
    match report:
        case Working():
            return report.description
        case PushedToCi():
            return f"{report.repo} commit {report.commit} -{_RUN}{_run_text(report.ci_run)}"
        case FixingCi():
            return f"{_before_dash(report.failed_job)}{_DASH}{report.diagnosis}"
        case Done():
            return _done_body(report)
        case Blocked():
            return report.reason
        case BlockedPermission():
            return f"{_before_dash(report.tool)}{_DASH}{report.error}"


def _done_body(report: Done) -> str:
    text = report.repo
    if report.ci_run is not None:
        text += f"{_RUN}{_run_text(report.ci_run)}"
    results = []
    if report.all_green is not None:
        results.append("all green" if report.all_green else "not all green")
    if report.sync_status is not None:
        named = f"{report.sync_job}: {report.sync_status}"
        results.append("Radicle synced" if report.sync_job is None else named)
    return f"{text} {', '.join(results)}".strip()


def _run_id(text: str) -> str:
    return text.strip().removeprefix("#")


def _run_text(run: str) -> str:
    return run if "://" in run else f"#{run}"


def _cut_at_dash(text: str) -> tuple[str, str]:
    if text.startswith('"') and f'"{_DASH}' in text[1:]:
        name, _, after = text[1:].partition(f'"{_DASH}')
        return name, after
    name, _, after = f"{text} ".partition(_DASH)
    return name.strip(), after.strip()


def _before_dash(name: str) -> str:
    """Quote a name that contains a dash, so that the parser does not split it there."""
    cut_early = f"{name}{_DASH}".index(_DASH) < len(name)
    return f'"{name}"' if cut_early or name.startswith('"') else name
