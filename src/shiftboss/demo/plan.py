"""The demo's plan and policy: eight tasks, and what goes wrong in four of them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

import yaml

from shiftboss.demo.material import WORK

SWARM: Final = "demo"
WORKERS: Final = 4

# id, repo, title, needs
_TASKS: Final[tuple[tuple[str, str, str, tuple[str, ...]], ...]] = (
    ("money", "units", "Show amounts of money", ()),
    ("weight", "units", "Show weights", ()),
    ("header", "site", "Add a header", ()),
    ("footer", "site", "Add a footer", ()),
    ("basket", "shop", "Add up a basket", ("money",)),
    ("postage", "shop", "Compute the postage", ("weight",)),
    ("bill", "shop", "Make out the bill", ("basket", "postage")),
    ("front", "site", "Show the bill on the front page", ("bill", "header", "footer")),
)
TASKS: Final = tuple(name for name, *_ in _TASKS)
NEEDS: Final = {name: needs for name, _, _, needs in _TASKS}
REPO_OF: Final = {name: repo for name, repo, *_ in _TASKS}
BUILT_ON: Final = {"units": [], "shop": ["units"], "site": ["shop"]}

_TEST: Final = "python3 -m unittest"


def write_plan(folder: Path) -> Path:
    """The plan file, with the policy beside it. Repos are folders of their names."""
    (folder / "shiftboss.yaml").write_text(yaml.safe_dump(_policy(), sort_keys=False))
    file = folder / "plan.yaml"
    file.write_text(yaml.safe_dump(_plan(), sort_keys=False))
    return file


def _plan() -> dict[str, Any]:
    command = [sys.executable, "-P", "-m", "shiftboss.demo.agent"]
    return {
        "goal": "A shop for tea",
        "swarm": SWARM,
        "workers": WORKERS,
        "agent": "script",
        "agents": {"script": {"kind": "command", "command": command}},
        "repos": {name: {} for name in BUILT_ON},
        "tasks": [
            {
                "id": name,
                "title": title,
                "repo": repo,
                "depends_on": list(needs),
                "files_owned": sorted(WORK[name]),
                "criteria": [f"Tests pass: {_TEST}"],
            }
            for name, repo, title, needs in _TASKS
        ],
    }


def _policy() -> dict[str, Any]:
    """A repo that is built on another is tested with it, too."""
    return {
        "repos": {
            name: {
                "path": f"repos/{name}",
                "branch": "main",
                "depends_on": needs,
                "ci": {"provider": "local", "jobs": _jobs(bool(needs)), "poll_every": 1},
            }
            for name, needs in BUILT_ON.items()
        }
    }


def _jobs(is_built_on_others: bool) -> dict[str, Any]:
    second = "python3 together.py" if is_built_on_others else "python3 -m compileall -q ."
    name = "together" if is_built_on_others else "compile"
    return {"test": {"run": [_TEST]}, name: {"run": [second]}}
