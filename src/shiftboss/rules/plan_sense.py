"""What a plan says that cannot hold: names of nothing, circles, ids that can be no branch.

It looks at the raw data, so that these are told together with the mistakes of form.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any, Final

from shiftboss.rules.branches import is_branch_name
from shiftboss.rules.near_names import did_you_mean
from shiftboss.rules.plan_agents import COMMAND
from shiftboss.rules.plan_task_sense import task_contradictions
from shiftboss.rules.raw_data import Contradiction, commands, mapping, patterns, texts, twice
from shiftboss.rules.variables import may_be_passed
from shiftboss.rules.yaml_lines import Path

# Workers are called by the swarm and a number, and 64 characters are all that they have.
SWARM_CHARACTERS_MAX: Final = 60
_NOT_YOURS: Final = "cannot be set here: it is Shiftboss's own, or puts code into other programs"
_ZERO: Final = re.compile(r"\s*(?:0+\s*[smhd]\s*)+")


def contradictions(data: dict[str, Any], kinds: Collection[str]) -> Iterator[Contradiction]:
    """`kinds` are the adapters that there are; an agent may be called by one, without settings."""
    swarm = data.get("swarm")
    if isinstance(swarm, str) and len(swarm) > SWARM_CHARACTERS_MAX:
        yield (
            ("swarm",),
            f"is longer than {SWARM_CHARACTERS_MAX} characters; workers are named by it",
        )
    repos, agents = mapping(data.get("repos")), mapping(data.get("agents"))
    for name, repo in repos.items():
        yield from _repo(("repos", name), mapping(repo))
    for name, agent in agents.items():
        yield from _agent(("agents", name), mapping(agent), kinds)
    yield from _named_agent(("agent",), data.get("agent", "claude"), agents, kinds)
    tasks = data.get("tasks")
    if isinstance(tasks, list):
        for place, task in enumerate(tasks):
            path: Path = ("tasks", place)
            yield from _named_agent((*path, "agent"), mapping(task).get("agent"), agents, kinds)
            yield from _zero_time((*path, "timeout"), mapping(task).get("timeout"))
        yield from task_contradictions(tasks, repos)


def _repo(path: Path, repo: dict[str, Any]) -> Iterator[Contradiction]:
    branch = repo.get("branch")
    if isinstance(branch, str) and not is_branch_name(branch):
        yield (*path, "branch"), f"{branch!r} cannot be the name of a branch"
    yield from commands((*path, "setup"), texts(repo.get("setup")))
    yield from _zero_time((*path, "setup_timeout"), repo.get("setup_timeout"))
    yield from _variables((*path, "environment"), mapping(repo.get("environment")))
    ports = texts(repo.get("ports"))
    yield from twice((*path, "ports"), ports)
    for place, name in ports:
        if not may_be_passed(name):
            yield (*path, "ports", place), _NOT_YOURS
        elif name in mapping(repo.get("environment")):
            yield (*path, "ports", place), f"{name!r} is in environment as well"
    yield from patterns((*path, "copy"), texts(repo.get("copy")))
    verification = mapping(repo.get("verification"))
    yield from commands((*path, "verification", "setup"), texts(verification.get("setup")))
    yield from patterns((*path, "verification", "generated"), texts(verification.get("generated")))


def _agent(path: Path, agent: dict[str, Any], kinds: Collection[str]) -> Iterator[Contradiction]:
    kind = agent.get("kind")
    if isinstance(kind, str) and kind not in kinds:
        guess = did_you_mean(kind, kinds) or f"; there are {', '.join(sorted(kinds))}"
        yield (*path, "kind"), f"there is no kind {kind!r}{guess}"
    if kind == COMMAND and not agent.get("command"):
        yield path, "the kind command needs a command: its command line, as a list of words"
    yield from _variables((*path, "environment"), mapping(agent.get("environment")))


def _named_agent(
    path: Path, name: object, agents: Collection[str], kinds: Collection[str]
) -> Iterator[Contradiction]:
    if not isinstance(name, str) or name in agents:
        return
    if name == COMMAND:
        yield path, f"the agent {name!r} has no command line; write one under agents.{name}"
    elif name not in kinds:
        yield path, f"there is no agent {name!r}{did_you_mean(name, [*agents, *kinds])}"


def _variables(path: Path, environment: dict[str, Any]) -> Iterator[Contradiction]:
    for name in environment:
        if not may_be_passed(name):
            yield (*path, name), _NOT_YOURS


def _zero_time(path: Path, value: object) -> Iterator[Contradiction]:
    is_zero = value == 0 and not isinstance(value, bool)
    if is_zero or (isinstance(value, str) and _ZERO.fullmatch(value)):
        yield path, "must be longer than nothing"
