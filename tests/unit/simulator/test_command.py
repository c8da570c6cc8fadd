"""The command `shiftboss simulate`."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from shiftboss.cli.commands.server.simulate import STEPS
from shiftboss.cli.main import app
from shiftboss.errors import InvalidRequest
from shiftboss.simulator.simulation import STEPS_DEFAULT, simulate


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["simulate", *arguments], catch_exceptions=False)
    return result.exit_code, result.stdout


@pytest.mark.requirement("OWN-09")
def test_a_seed_is_repeated_with_the_same_hash() -> None:
    code, text = run("--seed", "3", "--steps", "6", "--json")
    answer = json.loads(text)
    assert code == 0
    assert (answer["seeds"], answer["failures"]) == (1, [])
    assert answer["hash"] == simulate(3, 6).hash


def test_several_seeds_are_counted_and_steps_can_be_left_out() -> None:
    assert "3 seeds" in run("--seeds", "4..6", "--steps", "2", "--processes", "1")[1]
    assert "2 seeds" in run("--seed", "4", "--count", "2", "--steps", "2", "--processes", "1")[1]
    _, text = run("--seed", "3", "--steps", "4", "--without", "1,2", "--json")
    assert json.loads(text)["hash"] == simulate(3, 4, [1, 2]).hash


@pytest.mark.parametrize(
    "arguments",
    [
        ("--seeds", "5"),
        ("--seeds", "9..5"),
        ("--seeds", "1..2", "--seed", "0"),
        ("--seeds", "1..2", "--count", "3"),
        ("--without", "1,two"),
    ],
)
def test_seeds_that_cannot_be_meant_are_refused(arguments: tuple[str, ...]) -> None:
    with pytest.raises(InvalidRequest):
        run(*arguments)


def test_the_steps_of_the_command_are_those_of_the_simulator() -> None:
    """Repeated in the command, which imports the simulator only when it runs."""
    assert STEPS == STEPS_DEFAULT
