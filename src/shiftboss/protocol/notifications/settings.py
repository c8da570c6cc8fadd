"""The file `notify.yaml` of the operator: where notifications go, of which kinds, and when."""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal, get_args

from pydantic import BeforeValidator, Field, StringConstraints

from shiftboss.protocol.fields import NO_NUL, Request
from shiftboss.protocol.policy import Seconds

NotificationKind = Literal[
    "question",
    "escalation",
    "scope_request",
    "review",
    "dispute",
    "permission",
    "budget",
    "halt",
    "ci_failed",
    "task_failed",
    "run_finished",
    "verdict",
]
ChannelKind = Literal["desktop", "command", "webhook", "slack"]

# Every claim has a verdict, and most verdicts need no person.
DEFAULT_KINDS: Final[list[NotificationKind]] = [
    kind for kind in get_args(NotificationKind) if kind != "verdict"
]

ChannelName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]{0,31}$")]
VariableName = Annotated[str, StringConstraints(pattern=r"^[A-Z][A-Z0-9_]*$")]
FilePath = Annotated[str, StringConstraints(min_length=1, max_length=2000, pattern=NO_NUL)]
Word = Annotated[str, StringConstraints(max_length=2000, pattern=NO_NUL)]
_TIME: Final = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])")


def _minutes(value: object) -> object:
    """`22:00` as minutes since midnight. YAML reads it as the number 1320, which means the same."""
    if isinstance(value, str):
        parts = _TIME.fullmatch(value)
        if parts is None:
            raise ValueError("must be a time of day such as 22:00")
        return int(parts[1]) * 60 + int(parts[2])
    return value


TimeOfDay = Annotated[int, BeforeValidator(_minutes), Field(ge=0, lt=24 * 60)]


class ChannelSettings(Request):
    """One way to a person. The address of a webhook may be a secret (that of Slack is), so it may
    come from a variable or a file, too. Files are relative to the folder of `notify.yaml`."""

    kind: ChannelKind
    kinds: Annotated[list[NotificationKind], Field(max_length=20)] = Field(default=DEFAULT_KINDS)
    url: Annotated[str, StringConstraints(pattern=r"^https?://[^\s]+$", max_length=2000)] | None = (
        None
    )
    url_variable: VariableName | None = None
    url_file: FilePath | None = None
    secret_variable: VariableName | None = None
    secret_file: FilePath | None = None
    command: Annotated[list[Word], Field(max_length=50)] = Field(default=[])
    timeout: Annotated[Seconds, Field(ge=1, le=60)] = 10
    # More than these are put together into one message.
    per_minute: Annotated[int, Field(ge=1, le=600)] = 6


class QuietTime(Request):
    """From `start` to `end`, every day, in this time zone. What is `urgent` comes all the same."""

    start: TimeOfDay
    end: TimeOfDay
    zone: Annotated[str, StringConstraints(min_length=1, max_length=100)]
    urgent: Annotated[list[NotificationKind], Field(max_length=20)] = Field(
        default=["halt", "budget"]
    )


class NotifySettings(Request):
    channels: Annotated[dict[ChannelName, ChannelSettings], Field(max_length=20)] = Field(
        default={}
    )
    quiet: QuietTime | None = None
