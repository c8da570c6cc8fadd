"""What the head of an answer says about how often one may ask."""

from __future__ import annotations

from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Final

# A clock that is off, or a mistake of the forge's, must not stop us for a day.
HOLD_SECONDS_MAX: Final = 3600.0
UNSAID_SECONDS: Final = 60.0


def is_rate_limit(status: int, headers: Mapping[str, str], content: bytes) -> bool:
    """GitHub says it with a 403 as well; some of those have no header that tells."""
    if status == 429:
        return True
    if status != 403:
        return False
    has_header = "retry-after" in headers or headers.get("x-ratelimit-remaining") == "0"
    return has_header or b"rate limit" in content[:2000].lower()


def hold_seconds(headers: Mapping[str, str], epoch_seconds: float) -> float:
    """How long to stay away after a refusal."""
    said = _retry_after(headers.get("retry-after", ""), epoch_seconds)
    if said is None:
        said = _until_reset(headers, epoch_seconds)
    return min(max(said if said is not None else UNSAID_SECONDS, 1.0), HOLD_SECONDS_MAX)


def used_up_seconds(headers: Mapping[str, str], epoch_seconds: float) -> float | None:
    """Of an answer that was the last one for now: how long until there are more."""
    if headers.get("x-ratelimit-remaining") != "0":
        return None
    return hold_seconds(headers, epoch_seconds)


def _retry_after(text: str, epoch_seconds: float) -> float | None:
    """Seconds, or a date."""
    if text.strip().isdecimal():
        return float(text)
    try:
        return parsedate_to_datetime(text).timestamp() - epoch_seconds
    except (ValueError, TypeError):
        return None


def _until_reset(headers: Mapping[str, str], epoch_seconds: float) -> float | None:
    text = headers.get("x-ratelimit-reset", "")
    return float(text) - epoch_seconds if text.isdecimal() else None
