"""What differs between a task of the plan and the contract that the server has for it, and why."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from shiftboss.protocol.plan import PlanTask
from shiftboss.rules.paths.braces import normalize_patterns


class AgreedContract(NamedTuple):
    """The parts of one version of a contract that the plan names. `held_out` is the hash of the
    held-out tests."""

    version: int
    files_owned: Collection[str]
    criteria: list[str]
    held_out: str | None


class ContractChanges(NamedTuple):
    """The parts in which the plan differs from the contract: `in_plan`, the plan was edited since;
    `amended`, the contract was changed since."""

    in_plan: list[str]
    amended: list[str]


def contract_changes(
    task: PlanTask, held_out: str | None, in_force: AgreedContract, first: AgreedContract
) -> ContractChanges:
    """A part of the plan that still is the one of the `first` version was not edited."""
    differing = _differing_parts(task, held_out, in_force)
    edited = _differing_parts(task, held_out, first)
    return ContractChanges(
        [part for part in differing if part in edited],
        [part for part in differing if part not in edited],
    )


def _differing_parts(task: PlanTask, held_out: str | None, contract: AgreedContract) -> list[str]:
    """A contract may own more files than the plan says: scope requests widen it."""
    owned = {pattern for text in task.files_owned for pattern in normalize_patterns(text)}
    differs = {
        "files_owned": not owned <= set(contract.files_owned),
        # Without criteria in the plan, those of the contract were generated.
        "criteria": bool(task.criteria) and task.criteria != contract.criteria,
        "held_out": held_out != contract.held_out,
    }
    return [part for part, is_different in differs.items() if is_different]
