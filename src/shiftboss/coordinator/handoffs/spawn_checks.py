"""Checks of a spawn request that do not need the repository, and who may spawn."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from shiftboss.coordinator.contract.policy import ActivePolicy
from shiftboss.errors import Forbidden, InvalidRequest
from shiftboss.protocol.handoff_requests import SpawnSubtaskRequest
from shiftboss.protocol.handoffs import HeldOutTests
from shiftboss.rules.access.actors import Actor
from shiftboss.rules.claims.criteria import parse_command, parse_criterion
from shiftboss.rules.claims.environment_variables import is_variable_allowed
from shiftboss.rules.claims.held_out import (
    HELD_OUT_BYTES_MAX,
    criterion_problem,
    invalid_paths,
    is_too_large,
)
from shiftboss.rules.handoffs.new_contracts import (
    normalised_paths,
    normalised_policy,
    parse_each,
)
from shiftboss.rules.paths.repo_urls import checked_url, is_url


def check_request(request: SpawnSubtaskRequest, variables: Collection[str]) -> None:
    """Raises InvalidRequest with the field and the index in its list. `variables` are the
    environment variables that may be passed to commands."""
    normalised_paths(request.files, "files")
    normalised_paths(request.files_readonly or [], "files_readonly")
    normalised_policy(request.policy)
    check_criteria(request.success_criteria)
    _check_each(request.policy.setup, "policy.setup", parse_command)
    _check_variables(request.policy.environment, variables)


def check_criteria(criteria: Sequence[str]) -> None:
    _check_each(criteria, "success_criteria", parse_criterion)


def _check_each(texts: Sequence[str], field: str, parse: Callable[[str], object]) -> None:
    for _ in parse_each(texts, field, parse):
        pass


def _check_variables(names: Sequence[str], allowed: Collection[str]) -> None:
    """The environment belongs to the operator: a caller must not read it through a command."""
    for number, name in enumerate(names):
        field = f"policy.environment.{number}"
        if not is_variable_allowed(name):
            raise InvalidRequest(f"{field}: {name} is never passed to commands", field=field)
        if name not in allowed:
            raise InvalidRequest(
                f"{field}: the operator does not allow {name} to be passed to commands",
                field=field,
                hint=f"start the server with --pass-environment {name}",
            )


def repo_location(repo: str, policy: ActivePolicy, *, planned: bool) -> str:
    """The path of a repository, or its URL if that is allowed. The server fetches what a contract
    names, with its own credentials and from its own network: which hosts, only the operator and the
    policy decide."""
    if not is_url(repo):
        return repo
    try:
        location = checked_url(repo)
    except ValueError as error:
        raise InvalidRequest(f"repo: {error}", field="repo") from None
    if is_url(location) and not planned and not policy.has_url(location):
        raise Forbidden(
            "only the operator may spawn a task in a repository by its URL",
            field="repo",
            hint="name a repo of the policy, or let the operator spawn it",
        )
    return location


def check_held_out(tests: HeldOutTests | None, criteria: Sequence[str]) -> None:
    """Raises InvalidRequest for a set of held-out tests that could not be run. `criteria` are those
    of the contract."""
    if tests is None:
        return
    for path, reason in invalid_paths(tests.files):
        raise InvalidRequest(f"held_out.files: {path!r} {reason}", field="held_out.files")
    if is_too_large(tests):
        raise InvalidRequest(
            f"held_out.files: must have at most {HELD_OUT_BYTES_MAX // 1024} KiB together",
            field="held_out.files",
            hint="hold out fewer files, or shorter ones",
        )
    problem = criterion_problem(tests.criterion, criteria)
    if problem is not None:
        field = "held_out.criterion" if tests.criterion is not None else "held_out"
        raise InvalidRequest(f"{field}: {problem}", field=field)


def check_runs_held_out(tests: HeldOutTests | None, criteria: Sequence[str]) -> None:
    """Raises InvalidRequest if held-out tests that are kept would not be run by these criteria of
    an amended contract."""
    if tests is not None and criterion_problem(tests.criterion, criteria) is not None:
        raise InvalidRequest(
            "success_criteria: one of them must run tests, because only they run the held-out "
            "tests of the task",
            field="success_criteria",
            hint="keep one such as `Tests pass: COMMAND`, or replace the contract (handoff spawn "
            "with --replace)",
        )


def refuse_held_out(request: SpawnSubtaskRequest) -> None:
    """A caller that is not the operator could be the worker that must not know them."""
    if request.held_out is not None:
        raise Forbidden(
            "held_out: only the operator may hold tests out; nothing was changed",
            field="held_out",
            hint="send the request to /operator/spawn_subtask with the operator's token",
        )


class SpawnPolicy(NamedTuple):
    """The operator's choice at the start of the server: whether everybody may spawn, and which
    variables of the verifier's environment a contract may pass to its commands. A caller that
    spawns chooses commands that run with the rights of the verifier."""

    open_to_all: bool = True
    variables: frozenset[str] = frozenset()

    def check_may_run(self, actor: Actor) -> None:
        """The plan that a run reports is named in commands that the operator is advised to run.
        Whom the operator gave a token with the right role may do it anyway."""
        if not self.open_to_all and not actor.is_named:
            raise Forbidden(
                "only the operator may run plans here; nothing was changed",
                hint="the operator opens it to all with `shiftboss serve --spawning everybody`, or "
                "to some with tokens of the role orchestrator",
            )

    def check_open(self, actor: Actor) -> None:
        if not self.open_to_all and not actor.is_named:
            raise Forbidden(
                "only the operator may spawn here; nothing was changed",
                hint="the operator spawns with the command handoff spawn, or opens it to all with "
                "`shiftboss serve --spawning everybody`, or to some with tokens of the role "
                "spawner",
            )
