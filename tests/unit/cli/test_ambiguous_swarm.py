"""The error that lists the swarms that could be meant, with commands that work as printed."""

from __future__ import annotations

import sys

import pytest

from shiftboss.cli.common.ambiguous_swarm import AmbiguousSwarm, with_swarm

pytestmark = pytest.mark.requirement("OWN-11")


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        (["task", "show", "bd-1"], "shiftboss task show bd-1 --swarm s"),
        (["task", "show", "--", "-1"], "shiftboss task show --swarm s -- -1"),
        (["questions", "answer", "1", "a b"], "shiftboss questions answer 1 'a b' --swarm s"),
    ],
)
def test_the_swarm_is_an_option_of_the_same_command(arguments: list[str], command: str) -> None:
    assert with_swarm(arguments, "s") == command


def test_at_most_five_swarms_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["shiftboss", "why", "bd-1"])
    error = AmbiguousSwarm("a task bd-1", {f"s{number}": "open" for number in range(8)})
    assert error.code == "ambiguous_swarm"
    assert error.detail == (
        "8 swarms have a task bd-1: s0 (open), s1 (open), s2 (open), s3 (open), s4 (open) "
        "and 3 more"
    )
    assert error.hint is not None
    assert error.hint.count("`shiftboss why bd-1 --swarm s") == 5


def test_a_swarm_without_an_option_is_an_argument() -> None:
    arguments = ["swarm", "pause", "--reason", "at lunch"]
    assert with_swarm(arguments, "a", None) == "shiftboss swarm pause --reason 'at lunch' a"
