"""The demo's plan and policy: eight tasks in three repositories."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

import yaml

from shiftboss.demo.files import TASK_FILES

SWARM: Final = "demo"
WORKERS: Final = 4

# id, repo, title, dependencies
_TASKS: Final[tuple[tuple[str, str, str, tuple[str, ...]], ...]] = (
    ("money", "units", "Format amounts of money", ()),
    ("weight", "units", "Format weights", ()),
    ("header", "site", "Add a header", ()),
    ("footer", "site", "Add a footer", ()),
    ("basket", "shop", "Compute the total of a basket", ("money",)),
    ("postage", "shop", "Compute the postage", ("weight",)),
    ("bill", "shop", "Compute the bill", ("basket", "postage")),
    ("front", "site", "Show the bill on the front page", ("bill", "header", "footer")),
)
TASKS: Final = tuple(name for name, *_ in _TASKS)
DEPENDENCIES: Final = {name: depends_on for name, _, _, depends_on in _TASKS}
REPO_OF: Final = {name: repo for name, repo, *_ in _TASKS}
REPO_DEPENDENCIES: Final = {"units": [], "shop": ["units"], "site": ["shop"]}

_TEST: Final = "python3 -m unittest"


def write_plan(folder: Path) -> Path:
    """Write the plan file and the policy beside it. Each repository is a folder of its name."""
    (folder / "shiftboss.yaml").write_text(yaml.safe_dump(_policy(), sort_keys=False))
    file = folder / "plan.yaml"
    file.write_text(yaml.safe_dump(_plan(), sort_keys=False))
    return file


def _plan() -> dict[str, Any]:
    command = [sys.executable, "-P", "-m", "shiftboss.demo.agent"]
    return {
        "goal": "A tea shop",
        "swarm": SWARM,
        "workers": WORKERS,
        "agent": "script",
        "agents": {"script": {"kind": "command", "command": command}},
        "repos": {name: {} for name in REPO_DEPENDENCIES},
        "tasks": [
            {
                "id": name,
                "title": title,
                "repo": repo,
                "depends_on": list(depends_on),
                "files_owned": sorted(TASK_FILES[name]),
                "criteria": [f"Tests pass: {_TEST}"],
            }
            for name, repo, title, depends_on in _TASKS
        ],
    }


def _policy() -> dict[str, Any]:
    """A repository that depends on another one also has integration tests."""
    return {
        "repos": {
            name: {
                "path": f"repos/{name}",
                "branch": "main",
                "depends_on": depends_on,
                "ci": {"provider": "local", "jobs": _jobs(bool(depends_on)), "poll_every": 1},
            }
            for name, depends_on in REPO_DEPENDENCIES.items()
        }
    }


def _jobs(has_dependencies: bool) -> dict[str, Any]:
    if has_dependencies:
        return {"test": {"run": [_TEST]}, "integration": {"run": ["python3 run_integration.py"]}}
    return {"test": {"run": [_TEST]}, "compile": {"run": ["python3 -m compileall -q ."]}}
