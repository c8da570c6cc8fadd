"""Budgets and holds: totals, limits, and which hold wins."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shiftboss.rules.runs import budgets
from shiftboss.rules.runs.records import BudgetRecord, Hold, ProcessUsage, Totals, later_hold

tokens = st.integers(min_value=0, max_value=10**14)
price = st.none() | st.integers(min_value=0, max_value=10**15)
usages = st.builds(
    ProcessUsage,
    st.just("s"),
    st.just("t"),
    st.just(1),
    st.integers(min_value=1, max_value=3),
    tokens,
    tokens,
    tokens,
    price,
    st.just(0),
)


@given(st.lists(usages, max_size=20))
def test_incremental_totals_equal_the_sum_of_the_last_report_of_each_process(
    reports: list[ProcessUsage],
) -> None:
    totals, known = Totals(), dict[int, ProcessUsage]()
    for report in reports:
        totals = budgets.add_usage(totals, known.get(report.process), report)
        known[report.process] = report
    last = known.values()
    assert totals == Totals(
        sum(report.input_tokens for report in last),
        sum(report.output_tokens for report in last),
        sum(report.cached_tokens for report in last),
        sum(report.microdollars or 0 for report in last),
        sum(report.tokens for report in last if report.microdollars is None),
    )


@given(st.lists(usages, min_size=1, max_size=20))
def test_the_usage_of_a_process_only_grows(reports: list[ProcessUsage]) -> None:
    known: ProcessUsage | None = None
    for report in reports:
        usage = budgets.grown(known, report)
        added = budgets.added_usage(known, usage)
        assert min(added.input_tokens, added.output_tokens, added.cached_tokens) >= 0
        assert added.microdollars >= 0
        known = usage
    assert known is not None
    assert known.input_tokens == max(report.input_tokens for report in reports)


def limits(tokens: int | None = None, micro: int | None = None) -> BudgetRecord:
    return BudgetRecord("s", "t", tokens, micro)


@pytest.mark.parametrize(
    ("totals", "budget", "over"),
    [
        (Totals(10), None, None),
        (Totals(10), limits(), None),
        (Totals(4, 5), limits(10), None),
        (Totals(4, 6), limits(10), ("tokens", 10, 10)),
        (Totals(4, 5, cached_tokens=99), limits(10), None),
        (Totals(microdollars=499_999), limits(None, 500_000), None),
        (Totals(microdollars=750_000), limits(None, 500_000), ("dollars", 0.5, 0.75)),
        (Totals(20, microdollars=9), limits(10, 5), ("tokens", 10, 20)),
    ],
)
def test_a_limit_is_used_up_when_it_is_reached(
    totals: Totals, budget: BudgetRecord | None, over: tuple[str, float, float] | None
) -> None:
    assert budgets.exceeded_limit(totals, budget) == over


@pytest.mark.parametrize(
    ("known", "wanted", "is_raise"),
    [
        (None, limits(10), False),
        (limits(), limits(10, 10), False),
        (limits(10), limits(10), False),
        (limits(10), limits(9, 5), False),
        (limits(10), limits(11), True),
        (limits(10), limits(None, 5), True),
        (limits(10, 5), limits(9, 6), True),
    ],
)
def test_a_larger_limit_is_a_raise(
    known: BudgetRecord | None, wanted: BudgetRecord, is_raise: bool
) -> None:
    assert budgets.is_raise(known, wanted) is is_raise


def test_a_limit_below_a_millionth_of_a_dollar_is_rounded_up() -> None:
    assert (budgets.dollar_limit(1e-9), budgets.dollar_limit(None)) == (1, None)


def test_an_exceeded_limit_is_shown_with_its_unit() -> None:
    assert str(budgets.ExceededLimit("tokens", 1000, 1234)) == "1,234 of 1,000 tokens"
    assert str(budgets.ExceededLimit("dollars", 5, 5.125)) == "$5.12 of $5.00"


def test_the_hold_that_ends_later_wins() -> None:
    short = Hold("s", "", "pause", "short", 1, 100)
    long, endless = short._replace(since_ms=2, until_ms=200), short._replace(until_ms=None)
    assert later_hold(None, short) == short
    assert later_hold(short, long) == long._replace(since_ms=1)
    assert later_hold(long, short) == long
    assert later_hold(short, endless) == endless
    assert later_hold(endless, long) == endless
