"""Recognizes when an agent reports an exhausted quota, and when the quota resets.

Use it only for text that is known to be an error of the agent. In the output of a model or a
command, the same words would mean nothing.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo
from email.utils import parsedate_to_datetime
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

TEXT_CHARACTERS_MAX: Final = 20_000
# No quota resets later than this. A later time in the text means something else.
_SECONDS_MAX: Final = 45 * 86_400

_LIMIT: Final = re.compile(
    r"""usage[ _]limit | limit[ ]reached | hit[ ]your[ ](?:[\w-]{1,30}[ ]){0,3}limit
    | rate[ _-]?limit | too[ _]many[ _]requests
    | (?:status|error|code|rejected)[^\w\n]{1,5}(?:429|529)\b
    | (?:exceeded|exhausted)[ ]your[ ](?:[\w-]{1,30}[ ]){0,2}(?:quota|capacity)
    | (?<!disk[ ])quota[ _](?:exceeded|exhausted|will[ ]reset) | insufficient_quota
    | quotaerror | resource[ _](?:has[ ]been[ ])?exhausted
    | out[ ]of[ ](?:extra[ ]usage|credits) | spend[ ]cap | credit[ ]balance[ ]is[ ]too[ ]low
    | overloaded_error | is[ ]overloaded""",
    re.IGNORECASE | re.VERBOSE,
)

_UNITS: Final = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_NUMBER: Final = r"\d{1,9}(?:\.\d{1,9})?"
_UNIT: Final = (
    r"(?:milliseconds?|ms|days?|d|hours?|hrs?|h|minutes?|mins?|m|seconds?|secs?|s)(?![a-z])"
)
_PART: Final = re.compile(rf"({_NUMBER})\s?({_UNIT})", re.IGNORECASE)
# `3h 20m`, `5 days 22 hours 11 minutes`, `12h34m16s`, `59.4s`
_SPAN: Final = rf"(?:{_NUMBER}\s?{_UNIT}(?:\s?,)?\s?(?:and\s)?){{1,5}}"
# `limit reached|1760000000`, `"resets_at": 1760000000`, `resetsAt=1760000000000`
_EPOCH: Final = re.compile(
    r"""(?:\|[ ]?|resets?_?(?:at|time)\\?["']?\s?[:=]\s?\\?["']?)(\d{10})(\d{3})?(?!\d)""",
    re.IGNORECASE,
)
_SECONDS: Final = re.compile(
    r"""(?:resets?_in_seconds|retry[-_ ]?after(-ms)?)\\?["']?\s?[:=]\s?"""
    rf"""\\?["']?({_NUMBER})(?![\d.]*\s?[a-z])""",
    re.IGNORECASE,
)
_HTTP_DATE: Final = re.compile(
    r"""retry-after\\?["']?\s?[:=]\s?\\?["']?(\w{3},\s\d\d\s\w{3}\s\d{4}\s[\d:]{8}\sGMT)""",
    re.IGNORECASE,
)
_AFTER: Final = re.compile(
    rf"""(?:(?:again|retry|resets?|wait)\b[^.\n]{{0,40}}?\b(?:in|after|for)\s"""
    rf"""|retry_?delay\\?["']?\s?[:=]\s?\\?["']?)({_SPAN})""",
    re.IGNORECASE,
)
_ISO: Final = re.compile(
    r"(?:again|resets?|retry)\b[^\n]{0,40}?(\d{4}-\d\d-\d\dT\d\d:\d\d[\d:.]{0,16}(?:Z|[+-]\d\d:?\d\d))",
    re.IGNORECASE,
)
# `resets 2pm (Asia/Shanghai)`, `try again at Jul 5th, 2026 8:19 PM`, `resets Oct 9 at 5:30pm`
_CLOCK: Final = re.compile(
    r"""(?:resets?|again)\b[ ]?(?:at|on)?[ ]?
    (?:(?P<month>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}[ ](?P<day>\d{1,2})
       (?:st|nd|rd|th)?,?(?:[ ](?P<year>\d{4}))?,?[ ](?:at[ ])?)?
    (?P<hour>\d{1,2})(?::(?P<minute>\d\d))?[ ]?(?P<half>[ap])\.?m\b
    (?:[ ]?\((?P<zone>[A-Za-z_]{1,30}(?:/[A-Za-z_+-]{1,30}){0,2})\))?""",
    re.IGNORECASE | re.VERBOSE,
)
_MONTHS: Final = "janfebmaraprmayjunjulaugsepoctnovdec"


def mentions_limit(text: str) -> bool:
    return _LIMIT.search(_ends(text)) is not None


def reset_time(text: str, now: float, local: tzinfo | None = None) -> float | None:
    """When the quota resets, in seconds since 1970 like `now`. None if the text has no future time.

    A time of day without a time zone is in `local`, by default the zone of the machine.
    """
    text = _ends(text)
    for parse in (_epoch, _seconds, _date, _span):
        reset = parse(text, now)
        if reset is not None and now < reset <= now + _SECONDS_MAX:
            return reset
    reset = _clock(text, datetime.fromtimestamp(now, UTC).astimezone(local))
    return reset if reset is not None and now < reset <= now + _SECONDS_MAX else None


def _ends(text: str) -> str:
    if len(text) <= TEXT_CHARACTERS_MAX:
        return text
    half = TEXT_CHARACTERS_MAX // 2
    return f"{text[:half]}\n{text[-half:]}"


def _epoch(text: str, _now: float) -> float | None:
    match = _EPOCH.search(text)
    return None if match is None else int(match[1]) + int(match[2] or 0) / 1000


def _seconds(text: str, now: float) -> float | None:
    match = _SECONDS.search(text)
    return None if match is None else now + float(match[2]) * (0.001 if match[1] else 1)


def _date(text: str, _now: float) -> float | None:
    try:
        if match := _HTTP_DATE.search(text):
            return parsedate_to_datetime(match[1]).timestamp()
        if match := _ISO.search(text):
            return datetime.fromisoformat(match[1]).timestamp()
    except (ValueError, OverflowError):
        pass
    return None


def _span(text: str, now: float) -> float | None:
    match = _AFTER.search(text)
    if match is None:
        return now + 60 if re.search(r"in less than a minute", text, re.IGNORECASE) else None
    parts = _PART.findall(match[1])
    return now + sum(float(number) * _seconds_of(unit.lower()) for number, unit in parts)


def _seconds_of(unit: str) -> float:
    return _UNITS["ms"] if unit.startswith(("ms", "milli")) else _UNITS[unit[0]]


def _clock(text: str, now: datetime) -> float | None:
    match = _CLOCK.search(text)
    if match is None or int(match["hour"]) > 12:
        return None
    try:
        if match["zone"]:
            now = now.astimezone(ZoneInfo(match["zone"]))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        pass  # use the zone of the machine
    hour = int(match["hour"]) % 12 + (12 if match["half"].lower() == "p" else 0)
    try:
        at = now.replace(hour=hour, minute=int(match["minute"] or 0), second=0, microsecond=0)
        if match["month"]:
            month = _MONTHS.index(match["month"].lower()) // 3 + 1
            at = at.replace(int(match["year"] or now.year), month, int(match["day"]))
            if at < now and not match["year"]:
                at = at.replace(now.year + 1)
        elif at <= now:
            at += timedelta(days=1)
        return at.timestamp()
    except (ValueError, OverflowError):
        return None
