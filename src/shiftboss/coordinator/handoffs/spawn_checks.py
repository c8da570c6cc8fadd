"""What is wrong with a handoff that is asked for, whatever the repository says."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple, TypeVar

from shiftboss.errors import Forbidden, InvalidRequest
from shiftboss.protocol.handoff_requests import SpawnSubtaskRequest
from shiftboss.rules.claims.criteria import parse_command, parse_criterion
from shiftboss.rules.claims.variables import may_be_passed
from shiftboss.rules.paths.patterns import normalised

T = TypeVar("T")


def check_words(request: SpawnSubtaskRequest, variables: Collection[str]) -> None:
    """Raises InvalidRequest with the field, and the place in its list. `variables` may be shown to
    commands."""
    normalised_paths(request.files, "files")
    normalised_paths(request.files_readonly or [], "files_readonly")
    normalised_paths(request.policy.generated, "policy.generated")
    _each(request.success_criteria, "success_criteria", parse_criterion)
    _each(request.policy.setup, "policy.setup", parse_command)
    _check_variables(request.policy.environment, variables)


def normalised_paths(paths: Sequence[str], field: str) -> list[str]:
    return list(dict.fromkeys(_each(paths, field, normalised)))


def _each(texts: Sequence[str], field: str, parse: Callable[[str], T]) -> list[T]:
    found = []
    for number, text in enumerate(texts):
        try:
            found.append(parse(text))
        except ValueError as error:
            raise InvalidRequest(f"{field}.{number}: {error}", field=f"{field}.{number}") from None
    return found


def _check_variables(names: Sequence[str], allowed: Collection[str]) -> None:
    """The environment is the operator's: whoever may spawn must not read it by a command."""
    for number, name in enumerate(names):
        field = f"policy.environment.{number}"
        if not may_be_passed(name):
            raise InvalidRequest(f"{field}: {name} is not passed to commands", field=field)
        if name not in allowed:
            raise InvalidRequest(
                f"{field}: the operator has not allowed {name} to be passed to commands",
                field=field,
                hint=f"start the server with --pass-environment {name}",
            )


# Who may spawn, and what a contract may ask for: the operator's choice when the server starts.


class Spawning(NamedTuple):
    """Whoever spawns chooses commands that run with the rights of the verifier. `variables` are
    those of its environment that a contract may show to them."""

    open_to_all: bool = True
    variables: frozenset[str] = frozenset()

    def check_open(self) -> None:
        if not self.open_to_all:
            raise Forbidden(
                "only the operator may spawn here; nothing was changed",
                hint="the operator spawns with `shiftboss handoff spawn`, or opens it to all with "
                "`shiftboss serve --spawning everybody`",
            )
