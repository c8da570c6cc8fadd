"""An answer that most callers get at the first try, and some only after more has been done."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any, Generic, TypeVar

from shiftboss.protocol.fields import Answer

A = TypeVar("A", bound=Answer)


class TwoStepAnswer(Generic[A]):
    """What `first` gives is the answer, or else what `more` makes one of."""

    def __init__(self, first: Awaitable[Any], more: Callable[[Any], Awaitable[A]]) -> None:
        self.first = first
        self.more = more

    def __await__(self) -> Generator[Any, None, A]:
        found = yield from self.first.__await__()
        if isinstance(found, Answer):
            return found  # type: ignore[return-value]
        answer = yield from self.more(found).__await__()
        return answer
