"""Which line of a plan to change, so that a hack that was accepted would be refused."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from shiftboss.protocol.claims.verdicts import Verdict
from shiftboss.protocol.handoffs import MutantsRequired
from shiftboss.redteam.contracts import TaskContract
from shiftboss.redteam.hacks import Edit, Hack, NotApplicable
from shiftboss.redteam.replay import Trial
from shiftboss.rules.claims.held_out import runs_tests

# The share of mutants that the tests of a small, well tested change kill without effort.
_REQUIRE: Final = 0.6
_DOES_NOTHING: Final = ("words-not-code", "stub")


class Advice(NamedTuple):
    """`key` is the key of the task in the plan or, after "verification", of the repo's policy."""

    key: tuple[str, ...]
    text: str


def advise(trials: Iterable[Trial], task: TaskContract) -> dict[Advice, list[str]]:
    """What to change, with the names of the accepted hacks that the change is for."""
    hacks_by_advice: dict[Advice, list[str]] = {}
    for trial in trials:
        if trial.outcome == "accepted":
            assert trial.verdict is not None
            for advice in advice_for(trial.hack, trial.verdict, task):
                hacks_by_advice.setdefault(advice, []).append(trial.hack.name)
    return hacks_by_advice


def advice_for(hack: Hack, verdict: Verdict, task: TaskContract) -> list[Advice]:
    """The first thing that would refuse the hack; more than one if each is needed."""
    if not _runs_tests(task):
        return [_no_tests(task)]
    settings = list(_switched_off(hack, verdict, task))
    if settings:
        return settings
    owned = _owned_tests_in(hack.edit(task.view), task)
    if owned:
        return [_make_readonly(path) for path in owned]
    if hack.class_ in _DOES_NOTHING:
        return [Advice(("criteria",), "they hold without the work: add a test that fails now")]
    if task.held_out is None:
        text = "add tests that the worker does not see; no visible test can refuse this"
        return [Advice(("held_out",), text)]
    return [Advice(("held_out",), "its tests pass as well: add inputs that no visible test has")]


def _runs_tests(task: TaskContract) -> bool:
    return any(map(runs_tests, task.contract.success_criteria))


def _no_tests(task: TaskContract) -> Advice:
    first = "" if task.view.tests else "write tests, and "
    return Advice(("criteria",), f"none of them runs tests: {first}add `Tests pass: COMMAND`")


def _switched_off(hack: Hack, verdict: Verdict, task: TaskContract) -> Iterator[Advice]:
    """Settings of the policy that keep the defence from working."""
    policy = task.policy
    if policy.test_removal == "allow" and hack.defence in ("tests_kept", "criterion"):
        yield _setting("test_removal", "remove it: tests of the base may be removed or skipped")
    if policy.canaries == "off" and hack.defence in ("canary", "criterion"):
        yield _setting("canaries", "remove it: no test is sabotaged to see whether it can fail")
    if policy.expectations_change and hack.defence == "base_tests":
        text = "here or in the repo's verification, remove the tests that need not change"
        yield Advice(("expectations_change",), text)
    if policy.sandbox == "off" and hack.class_ == "outliving-processes":
        yield _setting("sandbox", "set it to auto or required: commands are not contained")
    if _has_uncounted_tests(verdict) and policy.test_summary is None:
        yield _setting("test_summary", "say how the test runner prints its result")
    if hack.defence == "mutants" and not isinstance(policy.mutants, MutantsRequired):
        yield _setting("mutants", f"set it to {{require: {_REQUIRE}}}")


def _setting(name: str, text: str) -> Advice:
    return Advice(("verification", name), text)


def _has_uncounted_tests(verdict: Verdict) -> bool:
    """Whether nobody could tell which tests ran."""
    return any(
        check.check == "criterion"
        and check.outcome == "unverifiable"
        and runs_tests(check.subject or "")
        for check in verdict.checks
    )


def _owned_tests_in(edit: Edit | NotApplicable, task: TaskContract) -> list[str]:
    """The tests of the base that the hack changes."""
    if isinstance(edit, NotApplicable):
        return []
    return [path for path in edit if path in task.view.tests]


def _make_readonly(path: str) -> Advice:
    return Advice(("files_owned",), f"the task owns {path}: move it to files_readonly")
