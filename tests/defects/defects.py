"""Deliberate defects: edits of a copy of the source, and what has to find each of them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
# By default the first seeds are tried, up to this one.
SEEDS_TRIED = 150
STEPS = 60
SECONDS_MAX = 900
NOT_POSTGRES = "not postgres"


class Defect(NamedTuple):
    """`seed` is the first one that finds the defect; `test` finds it if no seed does."""

    name: str
    about: str
    file: str
    old: str
    new: str
    seed: int | None = None
    test: str | None = None

    @property
    def path(self) -> Path:
        return SOURCE / "shiftboss" / self.file

    def applies(self) -> bool:
        """Whether the text to replace is there, once."""
        return self.path.read_text(encoding="utf-8").count(self.old) == 1

    def apply(self, copy: Path) -> None:
        path = copy / "shiftboss" / self.file
        path.write_text(path.read_text(encoding="utf-8").replace(self.old, self.new))


def load_defects() -> list[Defect]:
    document = tomllib.loads((Path(__file__).parent / "defects.toml").read_text())
    return [Defect(name=name, **members) for name, members in document.items()]


class Found(NamedTuple):
    """`how` is the seed and the invariant, or the test. None: nothing found the defect."""

    defect: Defect
    how: str | None


def find(defect: Defect, folder: Path, *, seeds_tried: int = SEEDS_TRIED) -> Found:
    """Apply the defect to a copy of the source in the folder, and look for it."""
    copy = folder / "src"
    # With the compiled files: they are valid for all files but the one that is edited.
    shutil.copytree(SOURCE, copy)
    defect.apply(copy)
    environment = os.environ | {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        if defect.test is not None:
            return Found(defect, _by_test(defect.test, environment))
        first = defect.seed or 0
        return Found(defect, _by_simulator(first, first + seeds_tried, environment))
    finally:
        shutil.rmtree(copy)


def _by_simulator(first: int, end: int, environment: dict[str, str]) -> str | None:
    arguments = ["--seeds", f"{first}..{end - 1}", "--steps", str(STEPS), "--processes", "1"]
    answer = _simulate([*arguments, "--fail-fast", "--no-shrink", "--json"], environment)
    if not answer["failures"]:
        return None
    failure = answer["failures"][0]
    return f"seed {failure['seed']}: `{failure['broken'][0]['invariant']}`"


def _simulate(arguments: list[str], environment: dict[str, str]) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "shiftboss.cli.main", "simulate", *arguments],
        env=environment,
        capture_output=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def _by_test(test: str, environment: dict[str, str]) -> str | None:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-n0",
            "-q",
            "-x",
            "-p",
            "no:cacheprovider",
            "-m",
            NOT_POSTGRES,
            test,
        ],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    return f"`{test}`" if done.returncode == 1 else None
