"""The help of every command: a summary in one line, and a panel of `shiftboss --help`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import typer.main

from shiftboss.cli.main import app

SUMMARY_CHARACTERS_MAX = 90


def commands(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    yield path, command
    for name, child in getattr(command, "commands", {}).items():
        yield from commands(child, f"{path} {name}")


ROOT = typer.main.get_command(app)
COMMANDS = dict(commands(ROOT, "shiftboss"))


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_has_a_summary_in_one_line(path: str) -> None:
    summary = (COMMANDS[path].help or "").partition("\n\n")[0]
    assert 10 < len(summary) <= SUMMARY_CHARACTERS_MAX
    assert "\n" not in summary
    assert summary[0].isupper()
    assert summary.endswith(".")


def test_every_top_level_command_has_a_panel_and_is_listed() -> None:
    children = getattr(ROOT, "commands")  # noqa: B009 - click types it as a plain command
    assert sorted(ROOT.list_commands(None)) == sorted(children)  # type: ignore[attr-defined]
    assert all(child.rich_help_panel for child in children.values())


@pytest.mark.parametrize(
    "path", [path for path, one in COMMANDS.items() if not hasattr(one, "commands")]
)
def test_every_option_has_a_help_text(path: str) -> None:
    options = [option for option in COMMANDS[path].params if option.name != "help"]
    assert all(option.help for option in options), [option.name for option in options]
