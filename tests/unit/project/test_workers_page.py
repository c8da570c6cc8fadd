"""The page about workers in other languages agrees with the examples and the kit."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from shiftboss.conformance.checks import Check
from shiftboss.conformance.server.kit import SERVER_CHECKS
from shiftboss.conformance.worker.profiles import BUS_CHECKS, PACKET_CHECKS

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "workers-in-other-languages.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("language", "suffix"), [("sh", "sh"), ("typescript", "ts"), ("go", "go")])
def test_the_workers_of_the_page_are_those_of_the_examples(language: str, suffix: str) -> None:
    (block,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    file = ROOT / "examples" / "workers" / f"bus_worker.{suffix}"
    assert block == file.read_text(encoding="utf-8")


def test_the_page_names_every_document_that_the_kit_checks() -> None:
    rows = re.findall(r"^\| (00\d|own)[,| ]", PAGE, re.MULTILINE)
    checks: list[Check[Any]] = [*BUS_CHECKS, *PACKET_CHECKS, *SERVER_CHECKS]
    assert set(rows) == {check.document for check in checks}


def test_the_page_names_every_variable_that_the_kit_sets() -> None:
    kit = ROOT / "src" / "shiftboss" / "conformance" / "worker"
    code = "".join(path.read_text(encoding="utf-8") for path in kit.glob("*.py"))
    set_by_kit = set(re.findall(r'"(SHIFTBOSS_[A-Z_]+)"', code))
    assert set_by_kit <= set(re.findall(r"`(SHIFTBOSS_[A-Z_]+)`", PAGE))
