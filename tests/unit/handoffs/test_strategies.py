"""The choice of a strategy follows its record."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shiftboss.rules.handoffs.strategies import (
    HALF_LIFE_MS,
    KNOWN_STRATEGIES,
    LONG_MS,
    WIN_MIN,
    Impact,
    StrategyRecord,
    decayed,
    disputed,
    impact_of,
    recorded,
    signal_weight,
    suggest,
)
from shiftboss.rules.tasks.retry import RECOVERABLE_ERRORS

pytestmark = pytest.mark.requirement("HO-08")

NOW_MS = 1_800_000_000_000
SEEDS = range(400)


def record(strategy: str, wins: float, losses: float, at_ms: int = NOW_MS) -> StrategyRecord:
    return StrategyRecord(strategy, wins, losses, round(wins + losses), at_ms)


def choices(records: list[StrategyRecord], now_ms: int = NOW_MS) -> Counter[str]:
    return Counter(suggest(records, now_ms, seed=seed).strategy for seed in SEEDS)


def tried_all(**changes: StrategyRecord) -> list[StrategyRecord]:
    """Every known strategy with four wins and four losses, except the given ones."""
    even = {name: record(name, 4, 4) for name in KNOWN_STRATEGIES}
    return list((even | {given.strategy: given for given in changes.values()}).values())


def test_a_strategy_with_many_losses_is_chosen_rarely() -> None:
    counts = choices(tried_all(bad=record("risk-based", 1, 19)))
    assert counts["risk-based"] < len(SEEDS) * 0.02
    assert min(counts[name] for name in KNOWN_STRATEGIES if name != "risk-based") > 60


def test_a_strategy_with_many_wins_is_chosen_most_of_the_time() -> None:
    counts = choices(tried_all(good=record("feature-based", 19, 1)))
    assert counts["feature-based"] > len(SEEDS) * 0.9


def test_a_custom_strategy_is_chosen_by_its_record_too() -> None:
    counts = choices(tried_all(good=record("by-layer", 30, 1)))
    assert counts["by-layer"] > len(SEEDS) * 0.9


def test_the_choice_follows_the_outcomes() -> None:
    """The same strategy first wins, then loses."""
    current = StrategyRecord("file-based")
    for _ in range(12):
        current = recorded(current, "positive", 1.0, NOW_MS)
    before = choices(tried_all(it=current))["file-based"]
    for _ in range(24):
        current = recorded(current, "negative", 1.0, NOW_MS)
    after = choices(tried_all(it=current))["file-based"]
    assert before > len(SEEDS) * 0.7
    assert after < len(SEEDS) * 0.1


def test_old_outcomes_are_forgotten() -> None:
    records = tried_all(bad=record("risk-based", 1, 19))
    assert choices(records, NOW_MS + 20 * HALF_LIFE_MS)["risk-based"] > len(SEEDS) * 0.15


def test_a_record_halves_every_ninety_days() -> None:
    old = decayed(record("file-based", 8, 4), NOW_MS + HALF_LIFE_MS)
    assert (old.wins, old.losses) == pytest.approx((4, 2))
    assert old.samples == 12
    assert HALF_LIFE_MS == 90 * 24 * 3600 * 1000


@given(st.integers(0, 10 * HALF_LIFE_MS), st.integers(0, 10 * HALF_LIFE_MS))
def test_decay_does_not_depend_on_the_number_of_steps(first_ms: int, second_ms: int) -> None:
    start = record("file-based", 8, 4)
    end_ms = NOW_MS + first_ms + second_ms
    in_two_steps = decayed(decayed(start, NOW_MS + first_ms), end_ms)
    at_once = decayed(start, end_ms)
    assert in_two_steps.wins == pytest.approx(at_once.wins)
    assert in_two_steps.losses == pytest.approx(at_once.losses)


def test_a_clock_that_goes_back_changes_nothing() -> None:
    start = record("file-based", 8, 4)
    assert decayed(start, NOW_MS - 5) == start
    assert recorded(start, "positive", 1.0, NOW_MS - 5).updated_at_ms == NOW_MS


@given(st.integers(), st.sampled_from(KNOWN_STRATEGIES))
def test_a_strategy_with_few_samples_is_tried_first(seed: int, fresh: str) -> None:
    records = tried_all(good=record("by-layer", 50, 1), fresh=record(fresh, 1, 0))
    suggestion = suggest(records, NOW_MS, seed=seed)
    assert suggestion.strategy == fresh
    assert "1 of 3" in suggestion.reason


@given(st.integers())
def test_the_least_sampled_comes_first(seed: int) -> None:
    records = [
        record("file-based", 1, 1),
        record("feature-based", 1, 0),
        record("risk-based", 2, 0),
        record("research-based", 1, 1),
    ]
    assert suggest(records, NOW_MS, seed=seed).strategy == "feature-based"


@given(st.integers())
def test_two_losses_are_enough_not_to_be_tried_first(seed: int) -> None:
    records = tried_all(bad=record("risk-based", 0, 2), good=record("by-layer", 500, 0))
    assert suggest(records, NOW_MS, seed=seed).strategy == "by-layer"


def test_without_records_every_known_strategy_is_tried() -> None:
    counts = choices([])
    assert set(counts) == set(KNOWN_STRATEGIES)
    assert min(counts.values()) > 60


@given(st.integers(), st.permutations(tried_all(good=record("by-layer", 5, 1))))
def test_the_same_seed_gives_the_same_choice_in_any_order(
    seed: int, records: list[StrategyRecord]
) -> None:
    usual = tried_all(good=record("by-layer", 5, 1))
    assert suggest(records, NOW_MS, seed=seed) == suggest(usual, NOW_MS, seed=seed)


@given(st.floats(0, 1000), st.floats(0, 1000))
def test_the_table_shows_what_the_choice_saw(wins: float, losses: float) -> None:
    suggestion = suggest([record("by-layer", wins, losses)], NOW_MS, seed=1)
    rows = {row.strategy: row for row in suggestion.table}
    assert set(rows) == {*KNOWN_STRATEGIES, "by-layer"}
    row = rows["by-layer"]
    assert (row.wins, row.losses, row.samples) == (wins, losses, round(wins + losses))
    assert row.mean == pytest.approx((wins + 1) / (wins + losses + 2))
    assert 0 <= row.low < row.mean < row.high <= 1
    assert 0 <= row.drawn <= 1


@pytest.mark.parametrize(
    ("impact", "wins", "losses"),
    [("positive", 1.5, 1), ("negative", 1, 1.5), ("neutral", 1, 1)],
)
def test_a_signal_counts_as_a_win_or_a_loss(impact: Impact, wins: float, losses: float) -> None:
    after = recorded(record("file-based", 1, 1), impact, 0.5, NOW_MS)
    assert (after.wins, after.losses, after.samples) == (wins, losses, 3)


def test_scope_violations_and_giving_up_count_against_the_strategy() -> None:
    assert impact_of("completion") == "positive"
    assert impact_of("refusal", violated={"scope", "criterion"}) == "negative"
    assert impact_of("refusal", violated={"criterion"}) == "neutral"
    assert impact_of("failure", error_type="build_failure") == "negative"
    assert impact_of("failure") == "negative"
    for error_type in RECOVERABLE_ERRORS:
        assert impact_of("failure", error_type=error_type) == "neutral"


def test_a_smooth_completion_is_a_full_win_and_a_rough_one_counts_less() -> None:
    smooth = signal_weight("positive")
    assert smooth == 1.0
    assert signal_weight("positive", refusals=1) < smooth
    assert signal_weight("positive", retries=1) < smooth
    assert signal_weight("positive", duration_ms=LONG_MS + 1) < smooth
    assert signal_weight("positive", duration_ms=LONG_MS) == smooth
    assert signal_weight("positive", refusals=9) == WIN_MIN
    assert signal_weight("negative", refusals=9, retries=9) == 1.0
    assert signal_weight("neutral") == 0.0


@pytest.mark.requirement("OWN-15")
def test_a_dispute_is_counted_and_changes_neither_score_nor_samples() -> None:
    assert impact_of("dispute") == "neutral"
    before = record("file-based", 3.0, 1.0)
    after = disputed(before)
    assert (after.disputes, after) == (1, replace(before, disputes=1))
    rows = [suggest([one], NOW_MS, seed=7).table for one in (before, after)]
    assert [replace(row, disputes=0) for row in rows[1]] == list(rows[0])
