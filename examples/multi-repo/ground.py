"""What the example stands on: ten bare git repos, a copy of each to sync to, and the policy."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path
from typing import Final

import yaml

# The graph of the completion contract: what each repo depends on.
GRAPH: Final[dict[str, list[str]]] = {
    "acdc-core": [],
    "sdk": [],
    "alphavm": ["acdc-core"],
    "deltavm": ["acdc-core"],
    "adl": ["acdc-core"],
    "adnet": ["alphavm", "deltavm", "acdc-core"],
    "alphaos": ["alphavm", "acdc-core"],
    "deltaos": ["deltavm", "acdc-core"],
    "adl-examples": ["adl"],
    "ac-dc": ["adnet"],
}
REQUIRED: Final = ["check", "format", "audit", "build", "test", "coverage"]
NAME: Final = ("-c", "user.name=Worker", "-c", "user.email=worker@example.com")

EMPTY_TREE: Final = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"

# Workflows of forges skip a sync job by a condition; here it is a job that the sync needs.
_SYNC_WANTED: Final = """\
import subprocess, sys

last = subprocess.run(["git", "log", "-1", "--format=%B"], stdout=subprocess.PIPE, check=True)
sys.exit(b"[skip sync]" in last.stdout)
"""


def files_of(repo: str, greeting: str) -> dict[str, str]:
    return {
        "sync_wanted.py": _SYNC_WANTED,
        "src/greeting.py": f"def greeting():\n    return {greeting!r}\n",
        "tests/test_greeting.py": (
            "import sys, unittest\n\nsys.path.insert(0, 'src')\nimport greeting\n\n\n"
            "class TestGreeting(unittest.TestCase):\n    def test_greeting(self):\n"
            f"        self.assertEqual(greeting.greeting(), 'hello from {repo}')\n"
        ),
    }


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *NAME, *arguments],  # noqa: S607
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


def make_repos(folder: Path) -> None:
    """`forge` is where workers push, `radicle` where the sync job of CI pushes to."""
    for repo in GRAPH:
        for place in ("forge", "radicle"):
            (folder / place / f"{repo}.git").mkdir(parents=True)
            git(folder / place / f"{repo}.git", "init", "--quiet", "--bare", "-b", "main")
        first = folder / "first" / repo
        for name, text in files_of(repo, "").items():
            (first / name).parent.mkdir(parents=True, exist_ok=True)
            (first / name).write_text(text)
        git(first, "init", "--quiet", "--initial-branch=main")
        git(first, "add", "--all")
        git(first, "commit", "--quiet", "--message", "A greeting that says nothing")
        git(first, "push", "--quiet", str(folder / "forge" / f"{repo}.git"), "main")


def write_policy(folder: Path) -> Path:
    """The contract's graph and jobs, with CI on this machine."""
    repos = {
        repo: {
            "path": f"forge/{repo}.git",
            "depends_on": depends_on,
            "ci": {
                "required_jobs": REQUIRED,
                "must_succeed": ["radicle-push"],
                "poll_every": 1,
                "jobs": _jobs(folder / "radicle" / f"{repo}.git"),
            },
        }
        for repo, depends_on in GRAPH.items()
    }
    path = folder / "shiftboss.yaml"
    path.write_text(yaml.safe_dump({"preset": "completion-contract", "repos": repos}))
    return path


def _jobs(radicle: Path) -> dict[str, object]:
    """The jobs of the contract, each a small real command; the last one needs all others."""
    commands = {
        "check": "python3 -m py_compile src/greeting.py",
        "format": f"git diff --check {EMPTY_TREE} HEAD -- src tests",
        "audit": "find . -name '*.pem' -exec false '{}' +",
        "build": "python3 -m zipapp src -m greeting:greeting -o greeting.pyz",
        "test": "python3 -m unittest discover -s tests",
        "coverage": "grep -q 'greeting.greeting()' tests/test_greeting.py",
        "sync-wanted": "python3 sync_wanted.py",
    }
    jobs: dict[str, object] = {name: {"run": [command]} for name, command in commands.items()}
    sync = f"git push --quiet {shlex.quote(str(radicle))} HEAD:refs/heads/main"
    return jobs | {"radicle-push": {"run": [sync], "needs": [*commands]}}
