"""The reference page has the views and the keys of the program, and no others."""

from __future__ import annotations

import re

import pytest
from textual.binding import Binding, BindingType

from shiftboss.cli.watch.screens.documents import ScrolledText
from shiftboss.cli.watch.screens.keys import VIEWS, help_text
from shiftboss.cli.watch.screens.lists import RowList
from shiftboss.cli.watch.screens.log_view import LogView
from shiftboss.cli.watch.screens.main_screen import MainScreen
from tests.unit.project.test_reference import section

pytestmark = pytest.mark.requirement("OWN-04")


def table(first: str) -> list[str]:
    """The first cells of the table whose first heading is this."""
    _, _, rest = section("## The terminal view").partition(f"| {first} |")
    return [line.split("|")[1] for line in rest.partition("\n\n")[0].splitlines()[2:]]


def bound_keys(bindings: list[BindingType]) -> set[str]:
    return {
        key
        for binding in bindings
        if isinstance(binding, Binding)
        for key in binding.key.split(",")
    }


def test_every_view_is_described() -> None:
    assert [cell.strip(" `") for cell in table("view")] == list(VIEWS.values())


def test_every_key_is_described_once() -> None:
    described = re.findall(r"`([^`]+)`", " ".join(table("key")))
    widgets = (MainScreen, RowList, ScrolledText, LogView)
    bound = set().union(*(bound_keys(widget.BINDINGS) for widget in widgets))
    assert sorted(described) == sorted(bound)


def test_the_help_has_the_keys_that_decide() -> None:
    shown = help_text().plain
    for key in ("a", "y  n", "s", "b", "r", "c", "p", "w", "/"):
        assert f"\n  {key:<14}" in shown


def test_the_help_fits_a_small_terminal() -> None:
    """80 columns, without the padding and the scrollbar: a line that wraps is hard to read."""
    assert [line for line in help_text().plain.splitlines() if len(line) > 77] == []
