"""The help of every command: a summary in one line, and a panel of `shiftboss --help`."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import typer.main
from typer.core import TyperGroup

from shiftboss.cli.main import app
from tests.doc_blocks import blocks

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


@pytest.mark.parametrize("path", COMMANDS)
def test_the_help_has_no_line_breaks_of_its_source(path: str) -> None:
    """They would remain when it is wrapped to the terminal. Examples fit into 80 columns."""
    for paragraph in (COMMANDS[path].help or "").split("\n\n"):
        if paragraph.startswith("\b"):
            assert max(map(len, paragraph.splitlines())) <= 78
        else:
            assert "\n" not in paragraph.strip()


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


def _examples() -> list[str]:
    """The command lines in all help texts. What follows a # or a > is for people or the shell."""
    texts = [command.help or "" for command in COMMANDS.values()]
    lines = [line for text in texts for line in re.findall(r"^  +(shiftboss .*)$", text, re.M)]
    return [re.split(r" +[>#] | {2,}", line)[0] for line in lines]


@pytest.mark.requirement("OWN-11")
@pytest.mark.parametrize(
    "path", [path for path, one in COMMANDS.items() if not isinstance(one, TyperGroup)]
)
def test_every_command_has_an_example(path: str) -> None:
    text = COMMANDS[path].help or ""
    assert re.search(rf"^  +{path}\b", text, re.M)
    assert len(re.findall("^Examples?[:,]", text, re.M)) == 1, "in the docstring and in examples.py"


@pytest.mark.parametrize(
    "path", [path for path, one in COMMANDS.items() if not isinstance(one, TyperGroup)]
)
def test_the_same_thing_has_the_same_name_in_every_usage_line(path: str) -> None:
    names = {"task_id": "TASK", "task": "TASK", "swarm_id": "SWARM", "swarm": "SWARM"}
    for option in COMMANDS[path].params:
        if option.name in names:
            assert option.metavar == names[option.name], option.name
        assert option.metavar not in ("ID", "X", "W", "WHO") or option.name == "ci_run"


def test_clean_is_set_up_and_receipts_are_watched() -> None:
    children = getattr(ROOT, "commands")  # noqa: B009 - click types it as a plain command
    assert children["clean"].rich_help_panel == "Server and set-up"
    assert children["receipt"].rich_help_panel == "Watch"


def _documented() -> list[str]:
    """The command lines in the documentation, once each."""
    texts = [block.text.replace("\\\n", " ") for block in blocks("bash", "sh")]
    found = [
        line for text in texts for line in re.findall(r"^(?:\S+/)?(shiftboss .*)$", text, re.M)
    ]
    return list(dict.fromkeys(re.split(r" +[>#|&](?: |$)| +2>", line)[0] for line in found))


@pytest.mark.requirement("OWN-11")
@pytest.mark.parametrize("line", [*_examples(), *_documented()])
def test_every_example_is_a_valid_command_line(line: str) -> None:
    command, (program, *arguments), context = ROOT, shlex.split(line), None
    assert program == "shiftboss"
    while isinstance(command, TyperGroup):
        context = command.make_context(program, [], parent=context, resilient_parsing=True)
        program, command, arguments = command.resolve_command(context, arguments)  # type: ignore
    command.make_context(program, arguments, parent=context)


@pytest.mark.requirement("OWN-11")
def test_the_help_has_five_groups_in_the_order_of_an_operators_day() -> None:
    children = getattr(ROOT, "commands")  # noqa: B009 - click types it as a plain command
    panels = dict.fromkeys(child.rich_help_panel for child in children.values())
    assert list(panels) == [
        "Run a plan",
        "Watch",
        "Decide",
        "Workers and tasks by hand",
        "Server and set-up",
    ]


def test_a_command_loads_only_its_own_module() -> None:
    code = (
        "import sys; from shiftboss.cli.main import main\n"
        "try: main(['swarm', 'list', '--server', 'http://127.0.0.1:1'])\n"
        "except SystemExit: pass\n"
        "print(*(name for name in sys.modules if name.startswith('shiftboss.cli.commands')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert "shiftboss.cli.commands.swarms.swarms" in done.stdout.split()
    assert "shiftboss.cli.commands.runs.run" not in done.stdout.split()
