"""A plan that differs from its contract: the plan was edited, or the contract was amended."""

from __future__ import annotations

from typing import Any

import pytest

from shiftboss.protocol.plan import PlanTask
from shiftboss.rules.plans.contract_changes import (
    AgreedContract,
    ContractChanges,
    contract_changes,
)

pytestmark = pytest.mark.requirement("OWN-15")

FIRST = AgreedContract(1, ["a.py", "b.py"], ["Tests pass: pytest"], "hash")
AMENDED = AgreedContract(2, ["a.py"], ["Command passes: true"], "hash")
WIDER = FIRST._replace(version=2, files_owned=["a.py", "b.py", "c.py"])


def changes(in_force: AgreedContract, held_out: str = "hash", **members: Any) -> ContractChanges:
    planned = {"files_owned": ["{a,b}.py"], "criteria": ["Tests pass: pytest"]}
    task = PlanTask(id="t", title="T", **(planned | members))
    return contract_changes(task, held_out, in_force, FIRST)


@pytest.mark.parametrize(
    ("in_force", "members", "in_plan", "amended"),
    [
        (FIRST, {}, [], []),
        (WIDER, {}, [], []),
        (FIRST, {"criteria": ["Else"]}, ["criteria"], []),
        (FIRST, {"files_owned": ["c.py"], "held_out": "other"}, ["files_owned", "held_out"], []),
        (AMENDED, {}, [], ["files_owned", "criteria"]),
        (AMENDED, {"criteria": ["Else"]}, ["criteria"], ["files_owned"]),
        # The plan says by now what the contract was amended to.
        (AMENDED, {"files_owned": ["a.py"], "criteria": ["Command passes: true"]}, [], []),
        # The criteria of the contract were generated.
        (AMENDED, {"files_owned": ["a.py"], "criteria": []}, [], []),
    ],
)
def test_an_amendment_is_not_mistaken_for_an_edit_of_the_plan(
    in_force: AgreedContract, members: dict[str, Any], in_plan: list[str], amended: list[str]
) -> None:
    assert changes(in_force, **members) == ContractChanges(in_plan, amended)
