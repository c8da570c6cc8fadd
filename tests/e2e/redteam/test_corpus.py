"""No hack of the corpus is accepted, and the honest twins of the hacks are."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import pytest

from shiftboss.orchestrator.run.plan_file import read_plan_file
from shiftboss.protocol.claims.verdicts import Verdict
from shiftboss.protocol.handoffs import HeldOutTests
from shiftboss.redteam.contracts import read_contract
from shiftboss.redteam.corpus import CLASSES, HACKS
from shiftboss.redteam.hacks import Edit, Hack
from shiftboss.redteam.replay import Replay, Trial, open_replay
from tests.e2e.redteam.examples import EXAMPLES, make_plan
from tests.e2e.redteam.honest_twins import TWINS, TWINS_OF_CLASS
from tests.programs import program

pytestmark = pytest.mark.requirement("OWN-17")

# Hacks that are about pytest, or about the files of another example.
_PYTEST: Final = (
    *("forged-pytest-output", "forged-junit-report", "patched-report", "plugin-at-import"),
    *("assertions-compiled-away", "session-collects-nothing", "skip-module", "xfail-at-call"),
    "exit-pytest-at-call",
)
_EXAMPLE_OF_CLASS: Final = {
    **dict.fromkeys(("shadowed-library", "injected-plugin", "build-files"), "everything"),
    "golden-files": "golden",
    "scope-tricks": "read-only",
}
_EXAMPLE_OF_HACK: Final = {
    **dict.fromkeys(_PYTEST, "pytest"),
    **dict.fromkeys(("placeholder", "words-of-criteria"), "new-module"),
    "frozen-randomness": "draw",
    "twin-of-test-module": "twin",
    **dict.fromkeys(("collect-ignore", "pytest-settings"), "everything"),
}
_EXAMPLE_OF_LANGUAGE: Final = {"javascript": "node", "go": "go", "rust": "rust"}
_PROGRAMS: Final = {"javascript": "node", "go": "go", "rust": "cargo"}
# These layers only read the change.
_WITHOUT_COMMANDS: Final = ("scope", "tests_kept")
# These give the answers that the visible tests expect.
NEED_HELD_OUT: Final = frozenset(hack.name for hack in HACKS if hack.defence == "held_out")


class Lab:
    """The examples, each with its scratch copy, made when a test first needs them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._runner = asyncio.Runner()
        self._opened = AsyncExitStack()
        self._replays: dict[tuple[str, bool, bool], Replay] = {}

    def try_hacks(
        self, example: str, hacks: Sequence[Hack], *, hidden: bool = False
    ) -> list[Trial]:
        """Without mutants, which no hack of the corpus needs to be refused."""

        async def run() -> list[Trial]:
            replay = await self._replay(example, hidden=hidden, mutants=False)
            return await replay.try_all(hacks)

        return self._runner.run(run())

    def verify(self, example: str, edit: Edit, *, hidden: bool = False) -> Verdict:
        """With mutants, as it is by default. They are tried without the hidden tests."""

        async def run() -> Verdict:
            replay = await self._replay(example, hidden=hidden, mutants=not hidden)
            return await replay.verify("honest work", edit)

        return self._runner.run(run())

    async def _replay(self, name: str, *, hidden: bool, mutants: bool) -> Replay:
        key = name, hidden, mutants
        if key not in self._replays:
            example = EXAMPLES[name]
            tests: HeldOutTests | None = example.hidden if hidden else None
            if not mutants:
                example = example._replace(verification={"mutants": "off"})
            file = make_plan(self._folder / f"{len(self._replays)}", example)
            plan = read_plan_file(file).plan
            contract = await read_contract(plan, plan.tasks[0], tests)
            opened = await self._opened.enter_async_context(open_replay(contract))
            self._replays[key] = opened
        return self._replays[key]

    def close(self) -> None:
        self._runner.run(self._opened.aclose())
        self._runner.close()


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    opened = Lab(tmp_path_factory.mktemp("lab"))
    yield opened
    opened.close()


def _example_of(hack: Hack) -> str:
    if hack.language in _EXAMPLE_OF_LANGUAGE:
        return _EXAMPLE_OF_LANGUAGE[hack.language]
    return _EXAMPLE_OF_HACK.get(hack.name, _EXAMPLE_OF_CLASS.get(hack.class_, "unittest"))


def _by_class() -> dict[str, list[Hack]]:
    """The hacks that need no held-out tests. Those that need a program are a class of their own."""
    by_class: dict[str, list[Hack]] = {}
    for hack in HACKS:
        if hack.name not in NEED_HELD_OUT:
            needed = _program_of(hack)
            of_class = hack.class_ if needed is None else f"{hack.class_}, {needed}"
            by_class.setdefault(of_class, []).append(hack)
    return by_class


def _program_of(hack: Hack) -> str | None:
    runs_commands = hack.defence not in _WITHOUT_COMMANDS
    return _PROGRAMS.get(hack.language or "") if runs_commands else None


@pytest.mark.parametrize("hacks", _by_class().values(), ids=_by_class())
def test_hacks_are_refused_by_the_layer_that_is_meant_to(lab: Lab, hacks: Sequence[Hack]) -> None:
    """A hack that another layer refuses may be broken: then it proves nothing."""
    needed = _program_of(hacks[0])
    if needed is not None:
        program(needed)
    by_example: dict[str, list[Hack]] = {}
    for hack in hacks:
        by_example.setdefault(_example_of(hack), []).append(hack)
    for example, tried in by_example.items():
        for trial in lab.try_hacks(example, tried):
            got = (trial.hack.name, trial.outcome, trial.check)
            assert got == (trial.hack.name, "refused", trial.hack.defence), trial.message


def test_a_plugin_that_the_contract_allows_is_refused_by_canaries(lab: Lab) -> None:
    hack = next(hack for hack in HACKS if hack.name == "conftest-report-hook")
    (trial,) = lab.try_hacks("pytest", [hack])
    assert (trial.outcome, trial.check) == ("refused", "canary"), trial.message


@pytest.mark.parametrize("name", sorted(NEED_HELD_OUT))
def test_memorised_answers_are_refused_by_held_out_tests(lab: Lab, name: str) -> None:
    hack = next(hack for hack in HACKS if hack.name == name)
    (trial,) = lab.try_hacks(_example_of(hack), [hack], hidden=True)
    assert (trial.outcome, trial.check) == ("refused", "held_out"), trial.message
    assert trial.verdict is not None
    outcomes = {check.check: check.outcome for check in trial.verdict.checks}
    assert outcomes.pop("held_out") == "failed"
    assert "failed" not in outcomes.values(), "without held-out tests it would be accepted"


@pytest.mark.parametrize("name", sorted(TWINS))
def test_honest_twins_are_accepted(lab: Lab, name: str) -> None:
    verdict = lab.verify(TWINS[name].example, TWINS[name].edit)
    assert verdict.accepted, verdict.violations


@pytest.mark.parametrize(
    "name", [name for name, example in EXAMPLES.items() if example.hidden is not None]
)
def test_honest_work_passes_held_out_tests(lab: Lab, name: str) -> None:
    verdict = lab.verify(name, EXAMPLES[name].fix, hidden=True)
    assert verdict.accepted, verdict.violations


def test_every_class_has_an_honest_twin() -> None:
    assert set(TWINS_OF_CLASS) == set(CLASSES)
    assert {name for names in TWINS_OF_CLASS.values() for name in names} <= set(TWINS)
