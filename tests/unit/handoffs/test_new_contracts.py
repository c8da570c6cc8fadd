"""What a new contract takes from the request, and what from the survey of the repository."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pytest

from shiftboss.errors import InvalidRequest
from shiftboss.protocol.handoffs import Contract, VerificationPolicy
from shiftboss.protocol.plan import PlanRepo, PlanTask
from shiftboss.rules.handoffs.new_contracts import new_contract, normalised_policy
from shiftboss.rules.plans.graph import policy_of

pytestmark = pytest.mark.requirement("HO-02", "OWN-17")


class Survey(NamedTuple):
    files_readonly: list[str]
    success_criteria: list[str]


def contract(
    files: Sequence[str] = ("src/",),
    readonly: Sequence[str] | None = None,
    criteria: Sequence[str] = (),
) -> Contract:
    return new_contract(
        "fix",
        files=files,
        files_readonly=readonly,
        criteria=criteria,
        dependencies=["first"],
        generated=Survey(["lib/"], ["Tests pass: pytest"]),
    )


def test_what_is_not_said_is_generated() -> None:
    assert contract() == Contract(
        task_id="fix",
        files_owned=["src/"],
        files_readonly=["lib/"],
        dependencies_completed=["first"],
        success_criteria=["Tests pass: pytest"],
    )


def test_what_is_said_replaces_what_is_generated() -> None:
    assert contract(readonly=[]).files_readonly == []
    assert contract(criteria=["it works"]).success_criteria == ["it works"]


def test_patterns_are_expanded_once() -> None:
    made = contract(files=["./src/{a,b}.py", "src/a.py"], readonly=["{x,y}/"])
    assert (made.files_owned, made.files_readonly) == (["src/a.py", "src/b.py"], ["x/", "y/"])


def test_an_unusable_pattern_is_named() -> None:
    with pytest.raises(InvalidRequest, match=r"files_readonly\.1: "):
        contract(readonly=["a", "../b"])


def test_a_task_adds_its_exceptions_to_the_policy_of_its_repo() -> None:
    repo = PlanRepo(
        path="/repo", verification=VerificationPolicy(expectations_change=["tests/{a,b}.py"])
    )
    task = PlanTask(id="fix", title="Fix", files_owned=[], expectations_change=["tests/c.py"])
    policy = normalised_policy(policy_of(repo, task))
    assert policy.expectations_change == ["tests/a.py", "tests/b.py", "tests/c.py"]
    assert repo.verification.expectations_change == ["tests/{a,b}.py"]
