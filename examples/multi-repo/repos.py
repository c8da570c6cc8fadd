"""The repositories of the example: ten bare git repos, a mirror of each, and the policy."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path
from typing import Final

import yaml

# The dependency graph of the completion contract.
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
IDENTITY: Final = ("-c", "user.name=Worker", "-c", "user.email=worker@example.com")

EMPTY_TREE: Final = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"

# A forge would skip the sync job with a condition. Here the sync job needs a job that fails.
_SYNC_CHECK: Final = """\
import subprocess, sys

last = subprocess.run(["git", "log", "-1", "--format=%B"], stdout=subprocess.PIPE, check=True)
sys.exit(b"[skip sync]" in last.stdout)
"""


def files_of(repo: str, greeting: str) -> dict[str, str]:
    return {
        "check_sync.py": _SYNC_CHECK,
        "src/greeting.py": f"def greeting():\n    return {greeting!r}\n",
        "tests/test_greeting.py": (
            "import sys, unittest\n\nsys.path.insert(0, 'src')\nimport greeting\n\n\n"
            "class TestGreeting(unittest.TestCase):\n    def test_greeting(self):\n"
            f"        self.assertEqual(greeting.greeting(), 'hello from {repo}')\n"
        ),
    }


def git(folder: Path, *arguments: str) -> str:
    result = subprocess.run(
        ["git", *IDENTITY, *arguments],  # noqa: S607
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    )
    return result.stdout.strip()


def create_repos(folder: Path) -> None:
    """Workers push to `forge`; the sync job of CI pushes to `radicle`."""
    for repo in GRAPH:
        for remote in ("forge", "radicle"):
            (folder / remote / f"{repo}.git").mkdir(parents=True)
            git(folder / remote / f"{repo}.git", "init", "--quiet", "--bare", "-b", "main")
        checkout = folder / "checkout" / repo
        for name, text in files_of(repo, "").items():
            (checkout / name).parent.mkdir(parents=True, exist_ok=True)
            (checkout / name).write_text(text)
        git(checkout, "init", "--quiet", "--initial-branch=main")
        git(checkout, "add", "--all")
        git(checkout, "commit", "--quiet", "--message", "An empty greeting")
        git(checkout, "push", "--quiet", str(folder / "forge" / f"{repo}.git"), "main")


def write_policy(folder: Path) -> Path:
    """Write the policy: the graph and the jobs of the contract, with CI on this machine."""
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
    """The jobs of the contract, each a small real command. The last one needs all others."""
    commands = {
        "check": "python3 -m py_compile src/greeting.py",
        "format": f"git diff --check {EMPTY_TREE} HEAD -- src tests",
        "audit": "find . -name '*.pem' -exec false '{}' +",
        "build": "python3 -m zipapp src -m greeting:greeting -o greeting.pyz",
        "test": "python3 -m unittest discover -s tests",
        "coverage": "grep -q 'greeting.greeting()' tests/test_greeting.py",
        "sync-check": "python3 check_sync.py",
    }
    jobs: dict[str, object] = {name: {"run": [command]} for name, command in commands.items()}
    sync = f"git push --quiet {shlex.quote(str(radicle))} HEAD:refs/heads/main"
    return jobs | {"radicle-push": {"run": [sync], "needs": [*commands]}}
