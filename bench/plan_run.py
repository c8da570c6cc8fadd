"""Starts `shiftboss run` as a process in a folder of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

SWARM = "bench"


@contextmanager
def running(folder: Path, plan: dict[str, Any]) -> Iterator[subprocess.Popen[str]]:
    """Run a plan with the repository `folder`/repo. The process is ended on exit."""
    (folder / "plan.yaml").write_text(
        yaml.safe_dump(
            {"goal": "Bench", "swarm": SWARM, "repos": {"repo": {"path": "repo"}}} | plan
        )
    )
    (folder / "home").mkdir()
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "shiftboss.cli.main", "run", "plan.yaml"),
            *("--own-server", "--json", "--trees", str(folder / "trees")),
        ],
        cwd=folder,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(folder / "home"),
            "BENCH_TIMES": str(folder),
        },
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.terminate()
        process.communicate()


def plan_task(name: str, *needs: str) -> dict[str, Any]:
    """A task with one trivial check, so that the rest of its time is Shiftboss's own."""
    return {
        "id": name,
        "title": f"Add {name}",
        "depends_on": list(needs),
        "files_owned": [f"{name}.txt"],
        "criteria": ["Command passes: true"],
    }
