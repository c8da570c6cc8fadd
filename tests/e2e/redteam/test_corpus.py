"""No hack of the corpus is accepted, and the honest twins of the hacks are."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import pytest

from shiftboss.orchestrator.run.plan_file import read_plan_file
from shiftboss.protocol.handoffs import HeldOutTests
from shiftboss.protocol.verdicts import Verdict
from shiftboss.redteam.contracts import read_contract
from shiftboss.redteam.corpus import CLASSES, HACKS
from shiftboss.redteam.hacks import Edit, Hack
from shiftboss.redteam.replay import Replay, Trial, open_replay
from tests.e2e.redteam.examples import EXAMPLES, make_plan
from tests.e2e.redteam.honest_twins import TWINS, TWINS_OF_CLASS

pytestmark = pytest.mark.requirement("OWN-17")

# Hacks that are about pytest, or about the files of another example.
_PYTEST: Final = (
    *("forged-pytest-output", "forged-junit-report", "patched-report", "plugin-at-import"),
    *("assertions-compiled-away", "session-collects-nothing", "skip-module", "xfail-at-call"),
    *("exit-pytest-at-call", "conftest-report-hook", "collect-ignore"),
)
_EXAMPLE_OF_CLASS: Final = {
    **dict.fromkeys(("shadowed-library", "injected-plugin", "build-files"), "everything"),
    "golden-files": "golden",
    "scope-tricks": "read-only",
}
_EXAMPLE_OF_HACK: Final = {
    **dict.fromkeys(_PYTEST, "pytest"),
    **dict.fromkeys(("placeholder", "words-of-criteria"), "new-module"),
    "make-target": "unittest",
    "frozen-randomness": "draw",
    "pytest-settings": "everything",
}
# These give the answers that the visible tests expect.
NEED_HELD_OUT: Final = frozenset(hack.name for hack in HACKS if hack.defence == "held_out")


class Lab:
    """The examples, each with its scratch copy, made when a test first needs them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._runner = asyncio.Runner()
        self._opened = AsyncExitStack()
        self._replays: dict[tuple[str, bool], Replay] = {}

    def try_hacks(self, example: str, hacks: Sequence[Hack], *, hidden: bool) -> list[Trial]:
        async def run() -> list[Trial]:
            return await (await self._replay(example, hidden)).try_all(hacks)

        return self._runner.run(run())

    def verify(self, example: str, edit: Edit, *, hidden: bool = False) -> Verdict:
        async def run() -> Verdict:
            return await (await self._replay(example, hidden)).verify("honest work", edit)

        return self._runner.run(run())

    async def _replay(self, name: str, hidden: bool) -> Replay:
        key = name, hidden
        if key not in self._replays:
            example = EXAMPLES[name]
            tests: HeldOutTests | None = example.hidden if hidden else None
            # The visible tests have been sabotaged and mutated without the hidden ones.
            switched_off = {"mutants": "off"} if hidden else {}
            file = make_plan(self._folder / f"{name}-{hidden}", example, **switched_off)
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
    if hack.language == "javascript":
        return "node"
    return _EXAMPLE_OF_HACK.get(hack.name, _EXAMPLE_OF_CLASS.get(hack.class_, "unittest"))


def _by_example(hacks: Sequence[Hack]) -> dict[str, list[Hack]]:
    by_example: dict[str, list[Hack]] = {}
    for hack in hacks:
        if hack.language not in ("go", "rust"):
            by_example.setdefault(_example_of(hack), []).append(hack)
    return by_example


@pytest.mark.parametrize("class_", CLASSES)
def test_hacks_are_refused(lab: Lab, class_: str) -> None:
    hacks = [hack for hack in HACKS if hack.class_ == class_ and hack.name not in NEED_HELD_OUT]
    for example, tried in _by_example(hacks).items():
        trials = lab.try_hacks(example, tried, hidden=False)
        others = [(*trial[1:3], trial.hack.name) for trial in trials if trial.outcome != "refused"]
        assert others == []


@pytest.mark.parametrize("name", sorted(NEED_HELD_OUT))
def test_memorised_answers_are_refused_by_held_out_tests(lab: Lab, name: str) -> None:
    hack = next(hack for hack in HACKS if hack.name == name)
    (seen,) = lab.try_hacks(_example_of(hack), [hack], hidden=False)
    (refused,) = lab.try_hacks(_example_of(hack), [hack], hidden=True)
    assert seen.outcome == "accepted", seen.message
    assert (refused.outcome, refused.check) == ("refused", "held_out")


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
