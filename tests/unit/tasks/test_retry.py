from __future__ import annotations

import pytest

from shiftboss.rules.tasks.retry import ErrorCategory, RetryPolicy, classify_error, is_recoverable


@pytest.mark.requirement("SW-08")
def test_there_are_two_retries_with_doubling_delays_and_no_third() -> None:
    policy = RetryPolicy()
    assert [policy.delay_seconds(made) for made in range(4)] == [30, 60, None, None]


@pytest.mark.requirement("SW-08")
@pytest.mark.parametrize(
    "error_type", ["network_error", "rate_limit", "test_flake", "dependency_timeout"]
)
def test_these_errors_are_recoverable_whatever_the_report_says(error_type: str) -> None:
    assert classify_error(error_type) is ErrorCategory.RECOVERABLE
    assert is_recoverable(error_type, reported=False)


@pytest.mark.requirement("SW-08")
@pytest.mark.parametrize(
    "error_type", ["test_failure", "build_failure", "merge_conflict", "invalid_manifest"]
)
def test_these_errors_are_not_recoverable_whatever_the_report_says(error_type: str) -> None:
    assert classify_error(error_type) is ErrorCategory.NON_RECOVERABLE
    assert not is_recoverable(error_type, reported=True)


@pytest.mark.requirement("SW-08")
@pytest.mark.parametrize("reported", [True, False])
def test_an_unknown_error_is_as_recoverable_as_the_report_says(reported: bool) -> None:
    assert classify_error("alien_invasion") is ErrorCategory.UNKNOWN
    assert is_recoverable("alien_invasion", reported) is reported
