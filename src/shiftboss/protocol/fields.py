"""The field types that requests and responses share, with their limits, and times on the wire."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import lru_cache
from typing import Annotated, ClassVar, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
)

# Some languages cannot represent larger JSON integers exactly.
INTEGER_MAX = 2**53 - 1
TASKS_TOTAL_MAX = 1000
ERROR_TYPE_CHARACTERS_MAX = 100
MESSAGE_CHARACTERS_MAX = 5000
WORKTREE_CHARACTERS_MAX = 4096
IDEMPOTENCY_KEY_CHARACTERS_MAX = 200

SWARM_ID_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"
_SWARM_ID = re.compile(SWARM_ID_PATTERN[:-1] + r"\Z")

# PostgreSQL text cannot hold NUL.
NO_NUL = r"^[^\x00]*$"


def is_swarm_id(text: str) -> bool:
    return _SWARM_ID.match(text) is not None


def _check_absolute(path: str) -> str:
    """Check the text of the path. The file system is not read."""
    if not path.startswith("/"):
        raise ValueError("must be an absolute path")
    if ".." in path.split("/"):
        raise ValueError("must not contain '..'")
    return path


def _to_int(value: object) -> object:
    """JSON may write 3000000000 as 3e9, which parses as a float."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


SwarmId = Annotated[str, StringConstraints(pattern=SWARM_ID_PATTERN)]
PacketId = Annotated[int, Field(gt=0, le=INTEGER_MAX)]
PacketName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]+$", max_length=100)]
TasksTotal = Annotated[int, Field(ge=1, le=TASKS_TOTAL_MAX)]
TasksCompleted = Annotated[int, Field(ge=0, le=TASKS_TOTAL_MAX)]
AbsolutePath = Annotated[
    str,
    StringConstraints(min_length=1, max_length=WORKTREE_CHARACTERS_MAX, pattern=NO_NUL),
    AfterValidator(_check_absolute),
]
Worktree = AbsolutePath
StepId = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=NO_NUL)]
StepName = Annotated[str, StringConstraints(min_length=1, max_length=500, pattern=NO_NUL)]
StepStatus = Literal["started", "completed", "failed"]
Commit = Annotated[str, StringConstraints(pattern=r"^[a-f0-9]{7,40}$")]
ErrorType = Annotated[
    str,
    StringConstraints(min_length=1, max_length=ERROR_TYPE_CHARACTERS_MAX, pattern=NO_NUL),
]
Message = Annotated[str, StringConstraints(max_length=MESSAGE_CHARACTERS_MAX, pattern=NO_NUL)]
Milliseconds = Annotated[int, Field(ge=0, le=INTEGER_MAX), BeforeValidator(_to_int)]
Note = Annotated[str, StringConstraints(max_length=2000, pattern=NO_NUL)]


class Request(BaseModel):
    """Input from outside. Unknown members and type conversions are rejected."""

    model_config = ConfigDict(defer_build=True, extra="forbid", strict=True, frozen=True)

    # Whether it concerns who sends it alone, whatever a token is limited to.
    is_about_caller: ClassVar[bool] = False


class Answer(BaseModel):
    """Output. It is built by our own code, so it is not validated again."""

    model_config = ConfigDict(defer_build=True, frozen=True)


def unbuilt_types() -> Iterator[type[BaseModel]]:
    """A type is built when it is used first: building all of them takes as long as many a command.
    Those that others consist of come first, as their modules do."""
    for base in (Request, Answer):
        yield from _unbuilt(base)


def _unbuilt(base: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for form in base.__subclasses__():
        if not form.__pydantic_complete__:
            yield form
        yield from _unbuilt(form)


@lru_cache(maxsize=256)
def _from_seconds(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def wire_time(at_ms: int) -> str:
    """`2026-01-05T10:00:00Z`. Inside the program, a time is in milliseconds since 1970 in UTC.

    The text is cached per second, because a busy server formats the same second thousands of times.
    """
    return _from_seconds(at_ms // 1000)


def optional_wire_time(at_ms: int | None) -> str | None:
    return None if at_ms is None else wire_time(at_ms)


def checkpoint_time(now: datetime) -> str:
    """`2026-01-05T10:00:00.123456+00:00`: always in UTC, always with the offset."""
    return now.astimezone(UTC).isoformat()
