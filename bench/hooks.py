"""How long an agent waits for a hook, from the start of its process to its end."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from bench.figures import Figure
from shiftboss.hooks.command import hook_argv
from shiftboss.hooks.contract import hash_of, write_contract

ROUNDS = 20
_ENTRY = "import sys; from shiftboss.cli.entry import main; main()"


def run(folder: Path, rounds: int = ROUNDS) -> list[Figure]:
    tree, file = folder / "tree", folder / "contract.json"
    base = _repository(tree)
    _contract(file, tree, base)
    edit = _call(tree, "Write", file_path="src/a.py", content="x" * 10_000)
    shell = _call(tree, "Bash", command="cd src && python -m pytest -q > out.py 2>&1")
    hook = hook_argv("pre-tool-use", file)
    command = [sys.executable, "-c", _ENTRY, "hook", "pre-tool-use", "--contract", str(file)]
    return [
        Figure("hook before an edit", _median(hook, edit, tree, rounds), "ms", at_most=60),
        Figure("hook before a command", _median(hook, shell, tree, rounds), "ms", at_most=60),
        Figure("shiftboss hook, before an edit", _median(command, edit, tree, rounds), "ms"),
        Figure(
            "hook before a commit", _median(hook_argv("pre-commit", file), b"", tree, rounds), "ms"
        ),
    ]


def _median(argv: Sequence[str], stdin: bytes, folder: Path, rounds: int) -> float:
    milliseconds = []
    for _ in range(rounds):
        started = time.perf_counter()
        process = subprocess.run(argv, input=stdin, cwd=folder, capture_output=True, check=False)
        milliseconds.append((time.perf_counter() - started) * 1000)
        assert process.returncode == 0, process.stderr
    return median(milliseconds)


def _call(tree: Path, tool: str, **tool_input: str) -> bytes:
    return json.dumps({"tool_name": tool, "tool_input": tool_input, "cwd": str(tree)}).encode()


def _repository(tree: Path) -> str:
    (tree / "src").mkdir(parents=True)
    (tree / "src/a.py").write_text("a = 1\n")
    identity = ("-c", "user.name=bench", "-c", "user.email=bench@shiftboss.invalid")
    for argv in (
        ("init", "--quiet", "--initial-branch=task"),
        ("add", "--all"),
        (*identity, "commit", "--quiet", "--message", "base"),
    ):
        subprocess.run(("git", *argv), cwd=tree, check=True)
    (tree / "src/a.py").write_text("a = 2\n")
    subprocess.run(("git", "add", "--all"), cwd=tree, check=True)
    process = subprocess.run(
        ("git", "rev-parse", "HEAD"), cwd=tree, check=True, capture_output=True, text=True
    )
    return process.stdout.strip()


def _contract(file: Path, tree: Path, base: str) -> None:
    contract = {"task_id": "t", "files_owned": ["src/"], "files_readonly": []}
    handoff = {"contract": contract, "context": {}, "escalation": {}}
    members = {
        "swarm_id": "bench",
        "bead_id": "t",
        "worker": "w",
        "epoch": 1,
        "contract_version": 1,
        "contract_hash": hash_of(handoff),
        "handoff": handoff,
        "generated": [],
        "tree": str(tree),
        "base": base,
        "branch": "task",
    }
    write_contract(file, members)
