"""Checks: their definition, selection, execution and results."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Literal, NamedTuple, Protocol, TypeVar

from shiftboss.errors import InvalidRequest

Outcome = Literal["holds", "broken", "not_offered", "not_checked"]
Document = Literal["000", "001", "002", "003", "004", "own"]

# Of one line of what was seen on the wire, and of these lines.
WIRE_LINES_MAX: Final = 8


class Broken(Exception):
    """The promise of the check does not hold, and why."""


class NotOffered(Exception):
    """The subject of the check is optional, and the worker or server does not have it."""


class NotChecked(Exception):
    """The check cannot be made here."""


class Bench(Protocol):
    """The environment that checks run in."""

    def wire_position(self) -> int:
        """How much has been seen on the wire."""

    def wire_lines(self, since: int) -> list[str]:
        """What has been seen since then, one line per exchange."""

    def recover(self) -> None:
        """Called after a broken check, so that the next one starts cleanly."""


B = TypeVar("B", bound=Bench)
Run = Callable[[B], None]


@dataclass(frozen=True, slots=True)
class Check(Generic[B]):
    """`run` raises one of the outcomes above, or returns if the promise holds."""

    name: str
    document: Document
    promise: str
    text: str
    run: Callable[[B], None]
    required: bool = True


class Result(NamedTuple):
    check: Check[Any]
    outcome: Outcome
    reason: str
    wire: Sequence[str]
    seconds: float

    @property
    def is_failure(self) -> bool:
        return self.outcome == "broken" and self.check.required

    def as_json(self) -> dict[str, object]:
        check = self.check
        return {
            "check": check.name,
            "document": check.document,
            "promise": check.promise,
            "text": check.text,
            "required": check.required,
            "outcome": self.outcome,
            "reason": self.reason,
            "wire": list(self.wire),
            "seconds": round(self.seconds, 2),
        }


class CheckList(list[Check[B]]):
    """Checks in the order in which they run. `add` is a decorator."""

    def add(
        self, name: str, document: Document, promise: str, text: str, *, required: bool = True
    ) -> Callable[[Run[B]], Run[B]]:
        def decorate(run: Run[B]) -> Run[B]:
            self.append(Check(name, document, promise, text, run, required))
            return run

        return decorate


def chosen(checks: Iterable[Check[Any]], only: Sequence[str]) -> list[Check[Any]]:
    """The checks that `only` names: by name, promise or document. All, if it is empty."""
    known = list(checks)
    names = {word for text in only for word in text.split(",") if word}
    selected = [check for check in known if names & {check.name, check.promise, check.document}]
    unknown = names - {
        word for check in known for word in (check.name, check.promise, check.document)
    }
    if unknown:
        raise InvalidRequest(
            f"only: there is no check {', '.join(sorted(unknown))}",
            field="only",
            hint="--list shows the checks with their documents and promises",
        )
    return selected if names else known


def run_checks(
    checks: Iterable[Check[B]], bench: B, on_result: Callable[[Result], None]
) -> list[Result]:
    results = []
    for check in checks:
        results.append(_run(check, bench))
        on_result(results[-1])
        if results[-1].outcome == "broken":
            bench.recover()
    return results


def _run(check: Check[B], bench: B) -> Result:
    position, started = bench.wire_position(), time.monotonic()
    outcome, reason = _outcome(check, bench)
    wire = bench.wire_lines(position)[-WIRE_LINES_MAX:] if outcome == "broken" else []
    return Result(check, outcome, reason, wire, time.monotonic() - started)


def _outcome(check: Check[B], bench: B) -> tuple[Outcome, str]:
    try:
        check.run(bench)
    except Broken as broken:
        return "broken", str(broken)
    except NotOffered as missing:
        return "not_offered", str(missing)
    except NotChecked as unknown:
        return "not_checked", str(unknown)
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        # Whatever the other side sends, the next checks are made.
        return "broken", f"an answer has another form: {type(error).__name__}: {error}"
    return "holds", ""


def counts(results: Iterable[Result]) -> dict[str, int]:
    outcomes = Counter(result.outcome for result in results)
    return {name: outcomes[name] for name in ("holds", "broken", "not_offered", "not_checked")}
