"""What happens to tests that need PostgreSQL where there is none."""

from __future__ import annotations

import pytest

from tests import postgres
from tests.postgres import PostgresMissingError, postgres_for_tests


@pytest.fixture(autouse=True)
def without_postgres(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_none() -> None:
        raise PostgresMissingError("not installed")

    monkeypatch.setattr(postgres, "_find_programs", find_none)
    monkeypatch.delenv("CI", raising=False)


def test_without_postgres_tests_are_skipped_with_the_reason() -> None:
    with pytest.raises(pytest.skip.Exception, match="not installed"), postgres_for_tests():
        pass


def test_without_postgres_tests_fail_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="not installed"), postgres_for_tests():
        pass
