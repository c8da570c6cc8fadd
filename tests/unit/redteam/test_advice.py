"""Which line of the plan would refuse a hack that was accepted."""

from __future__ import annotations

from typing import Any

import pytest

from shiftboss.protocol.claims.verdicts import CheckResult, Verdict
from shiftboss.protocol.handoffs import HeldOutTests, VerificationPolicy
from shiftboss.redteam.advice import advice_for, advise
from shiftboss.redteam.contracts import TaskContract
from shiftboss.redteam.replay import Trial
from tests.unit.redteam.test_corpus import PYTHON, named, view

pytestmark = pytest.mark.requirement("OWN-17")
HIDDEN = HeldOutTests(files={"tests/test_hidden.py": "def test_one(): pass\n"})


def contract(
    *, criteria: list[str] | None = None, held_out: HeldOutTests | None = None, **policy: Any
) -> TaskContract:
    project = view(PYTHON, owned=["shop/", "tests/"])
    terms = project.contract
    if criteria is not None:
        terms = terms.model_copy(update={"success_criteria": criteria})
    return TaskContract(
        git_folder="/repo/.git",
        base="0" * 40,
        branch="shiftboss/fix",
        target="main",
        contract=terms,
        policy=VerificationPolicy(**policy),
        held_out=held_out,
        view=project,
    )


def verdict(*checks: CheckResult) -> Verdict:
    return Verdict(
        accepted=True,
        base_commit="0" * 40,
        commit="1" * 40,
        tree="2" * 40,
        checks=list(checks),
        violations=[],
    )


def advice(name: str, task: TaskContract, *checks: CheckResult) -> list[tuple[str, str]]:
    advised = advice_for(named(name), verdict(*checks), task)
    return [(".".join(key), text) for key, text in advised]


@pytest.mark.parametrize(
    ("hack", "task", "key", "text"),
    [
        ("exit-at-import", contract(criteria=["it works"]), "criteria", "none of them runs tests"),
        ("equal-to-everything", contract(canaries="off"), "verification.canaries", "remove it"),
        ("skip-at-call", contract(test_removal="allow"), "verification.test_removal", "remove it"),
        ("daemon", contract(sandbox="off"), "verification.sandbox", "auto or required"),
        (
            "early-return",
            contract(expectations_change=["tests/"]),
            "expectations_change",
            "need not change",
        ),
        ("early-return", contract(), "files_owned", "move it to files_readonly"),
        ("comment-only", contract(), "criteria", "add a test that fails now"),
        ("answer-table", contract(), "held_out", "add tests that the worker does not see"),
        ("answer-table", contract(held_out=HIDDEN), "held_out", "inputs that no visible test has"),
    ],
)
def test_each_accepted_hack_names_the_key_to_change(
    hack: str, task: TaskContract, key: str, text: str
) -> None:
    ((found_key, found_text),) = advice(hack, task)
    assert found_key == key
    assert text in found_text


def test_a_runner_that_nobody_can_count_needs_a_summary() -> None:
    task = contract()
    subject = task.contract.success_criteria[0]
    uncounted = CheckResult(
        check="criterion", outcome="unverifiable", message="unknown runner", subject=subject
    )
    ((key, _),) = advice("exit-at-import", task, uncounted)
    assert key == "verification.test_summary"


def test_the_same_advice_is_given_once_with_all_its_hacks() -> None:
    trials = [
        Trial(named("answer-table"), "accepted", verdict=verdict()),
        Trial(named("exit-at-import"), "refused", "no tests", "criterion", verdict()),
        Trial(named("call-counter"), "accepted", verdict=verdict()),
    ]
    ((_, hacks),) = advise(trials, contract()).items()
    assert hacks == ["answer-table", "call-counter"]
