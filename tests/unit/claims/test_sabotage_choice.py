"""Which of the possible sabotages are chosen, and how they are applied together."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shiftboss.rules.claims.canaries.edits import SabotageKind
from shiftboss.rules.claims.canaries.judgement import judge_canaries
from shiftboss.rules.claims.canaries.sabotage import (
    Sabotage,
    apply_sabotages,
    choose_one,
    choose_sabotages,
    fails_with,
    sabotages,
)
from shiftboss.rules.claims.criteria import CommandResult
from shiftboss.rules.claims.test_runs.judgement import CommandRun
from shiftboss.rules.claims.test_runs.test_output import printed_report

pytestmark = pytest.mark.requirement("OWN-13")

kinds = st.lists(st.sampled_from(["value", "negation", "raise"]), min_size=1, unique=True)
files = st.dictionaries(st.sampled_from("abc"), st.lists(kinds, max_size=6))


def sabotage(test: str, kind: SabotageKind) -> Sabotage:
    return Sabotage(test, 1, "changed", kind, 0, 0, "")


@given(files=files, seed=st.integers(), limit=st.integers(min_value=0, max_value=8))
def test_a_choice_leaves_half_of_the_tests_and_prefers_values(
    files: dict[str, list[list[SabotageKind]]], seed: int, limit: int
) -> None:
    options = {
        path: [sabotage(f"test_{n}", kind) for n, kinds in enumerate(tests) for kind in kinds]
        for path, tests in files.items()
    }
    chosen = choose_sabotages(options, Random(seed), limit)
    tests = {(path, one.test) for path, offered in options.items() for one in offered}
    picked = [(path, one) for path, ones in chosen.items() for one in ones]
    assert all(one in options[path] for path, one in picked)
    assert len({(path, one.test) for path, one in picked}) == len(picked)
    assert len(picked) == min(limit, max(len(tests) // 2, min(1, len(tests))))
    with_value = sum("value" in kinds for tests_of in files.values() for kinds in tests_of)
    values = sum(one.kind == "value" for _, one in picked)
    assert values >= min(with_value, (len(picked) + 1) // 2)


def test_a_choice_mixes_the_kinds_and_depends_on_chance_alone() -> None:
    every: list[SabotageKind] = ["value", "negation", "raise"]
    options = {"a": [sabotage(f"test_{n}", kind) for n in range(40) for kind in every]}
    first, again, other = (choose_sabotages(options, Random(seed), 6) for seed in (1, 1, 2))
    assert sorted(one.kind for one in first["a"]) == [
        *("negation", "negation", "raise", "value", "value", "value")
    ]
    assert first == again
    assert first != other


def test_of_one_choice_every_kind_has_the_same_chance_however_many_shapes_it_has() -> None:
    options = [sabotage("test_a", "value"), *[sabotage("test_a", "raise")] * 99]
    kinds = [choose_one(options, Random(seed)).kind for seed in range(40)]
    assert 10 < kinds.count("value") < 30


def test_the_classes_that_inherit_a_test_count_as_one() -> None:
    options = {"a": [sabotage("One::test_a", "raise"), sabotage("Two::test_a", "value")]}
    (one,) = choose_sabotages(options, Random(1), 5)["a"]
    assert one.kind == "value"


TEXT = "def test_a():\n    assert f() == 1\n\ndef test_b():\n    assert g()\n"


def test_several_sabotages_are_applied_at_once() -> None:
    options = {(one.test, one.kind): one for one in sabotages("test_it.py", TEXT)}
    chosen = [options["test_b", "negation"], options["test_a", "value"]]
    assert apply_sabotages("test_it.py", TEXT, chosen, "n") == (
        f"def test_a():\n    assert f() == {chosen[1].replacement}  # n\n\n"
        f"def test_b():\n    assert {chosen[0].replacement}  # n\n"
    )


def test_a_test_is_sabotaged_only_once() -> None:
    with pytest.raises(ValueError, match="only once"):
        apply_sabotages("test_it.py", TEXT, sabotages("test_it.py", TEXT), "n")


@pytest.mark.parametrize("nonce", ["", "a\nimport os", "*/ x", "ü"])
def test_a_nonce_cannot_become_code(nonce: str) -> None:
    with pytest.raises(ValueError, match="nonce"):
        apply_sabotages("test_it.py", TEXT, [], nonce)


CARGO_OUTPUT = """\
     Running unittests src/lib.rs (target/debug/deps/sums-aa34)

running 2 tests
test tests::three ... {outcome}
test tests::two ... ok

test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
"""


def test_a_sabotaged_inline_test_of_rust_disturbs_no_other() -> None:
    green = printed_report("cargo", CARGO_OUTPUT.format(outcome="ok"))
    red = printed_report("cargo", CARGO_OUTPUT.format(outcome="FAILED"))
    assert green is not None
    result = CommandResult(101, False, False, "", 5, "exit code 101")
    chosen = {"src/lib.rs": [sabotage("tests::three", "raise")]}
    judged = judge_canaries(chosen, green, CommandRun("cargo", True, result, red))
    assert judged.disturbed == []
    assert judged.judgement.outcome == "passed"


@pytest.mark.parametrize(
    ("name", "sabotaged", "expected"),
    [
        ("test_a[1]", "test_a", True),
        ("TestB::test_a[x::y]", "TestA::test_a", True),
        ("TestAdd/negative_numbers", "TestAdd", True),
        ("TestA::test_b", "TestA::test_a", False),
        ("sums > adds [1] > a", "sums > adds [1] > a", True),
        ("sums > adds", "products > adds", False),
        ("src/lib.rs tests::three", "tests::three", True),
        ("src/lib.rs tests::two", "tests::three", False),
        ("example.com/sums TestAdd/one", "TestAdd", True),
        ("example.com/sums TestSub", "TestAdd", False),
        ("multiplies numbers", "numbers", False),
        ("test_b[x Test[1]", "Test", False),
    ],
)
def test_a_failure_is_expected_of_whatever_shares_the_sabotaged_function(
    name: str, sabotaged: str, *, expected: bool
) -> None:
    assert fails_with(name, sabotaged) is expected
