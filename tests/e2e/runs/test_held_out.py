"""A whole run of a task with held-out tests, of which its agent can find nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.commands import shiftboss
from tests.plan_runs import CRITERION, PlanProject

pytestmark = pytest.mark.requirement("OWN-14")

SWARM = "held"
# In the content, in the path and in the command.
MARKER = "zebra"
HIDDEN = f"test_{MARKER}.py"
SOURCE = f"held-out/{HIDDEN}"

# Keeps everything that it was given. Its first work is right for the visible test alone.
AGENT = """
import os, pathlib, subprocess, sys, uuid
prompt = pathlib.Path(os.environ["SHIFTBOSS_PROMPT"]).read_text()
given = [prompt, repr(dict(os.environ)), repr(sys.argv)]
given += [f"{path}\\n{path.read_bytes()!r}" for path in sorted(pathlib.Path.cwd().rglob("*.py"))]
seen = pathlib.Path(os.environ["PLAN_AGENT_MARKS"]) / f"seen-{uuid.uuid4().hex}"
seen.write_text("\\n".join(given))
result = "a * b" if "were refused" in prompt or "was refused" in prompt else "6"
pathlib.Path("sums.py").write_text(f"def product(a, b):\\n    return {result}\\n")
pathlib.Path("test_sums.py").write_text(
    "import unittest\\nimport sums\\n\\n\\nclass Test(unittest.TestCase):\\n"
    "    def test_it(self):\\n        self.assertEqual(sums.product(2, 3), 6)\\n")
subprocess.run(["git", "add", "--all"], check=True)
subprocess.run(["git", "commit", "--quiet", "-m", "Sums"], check=True)
"""
HELD_OUT = (
    f"import unittest\nimport sums\n\n\nclass Test{MARKER.title()}(unittest.TestCase):\n"
    f"    def test_{MARKER}(self):\n        self.assertEqual(sums.product(4, 5), 20)\n"
)


@pytest.fixture
def project(tmp_path: Path) -> PlanProject:
    made = PlanProject(tmp_path)
    (tmp_path / "held-out").mkdir()
    (tmp_path / SOURCE).write_text(HELD_OUT)
    agent = tmp_path / "agent.py"
    agent.write_text(AGENT)
    made.plan(
        {
            "id": "sums",
            "title": "Products",
            "files_owned": ["sums.py", "test_sums.py"],
            "criteria": [CRITERION],
            "held_out": {
                "files": {HIDDEN: SOURCE},
                "criterion": f"Tests pass: python3 -m unittest {HIDDEN.removesuffix('.py')}",
            },
        },
        swarm=SWARM,
        agents={"script": {"kind": "command", "command": [sys.executable, str(agent)]}},
    )
    return made


def test_nothing_that_an_agent_can_look_at_has_the_held_out_tests(project: PlanProject) -> None:
    outcome = project.run()
    assert outcome["landed"] == ["sums"], outcome
    assert "sums: refused: held_out: 1 of 1 held-out tests fails" in project.log()
    (check,) = [check for check in _receipt(project)["checks"] if check["check"] == "held_out"]
    assert (check["outcome"], check["tests"]["ran"]) == ("passed", 1)
    assert len(check["held_out_sha256"]) == 64
    seen = list(project.marks.glob("seen-*"))
    assert len(seen) >= 2
    for what, text in [
        ("the outcome", json.dumps(outcome)),
        *_files(project.folder),
        ("the objects of the repository", _objects(project.repo)),
        *_commands(project),
    ]:
        assert MARKER not in text.lower(), what

    (project.folder / SOURCE).write_text(HELD_OUT + "# more\n")
    assert project.run()["landed"] == ["sums"]
    assert "sums: held_out changed in the plan; the server keeps the earlier" in project.log()


def _receipt(project: PlanProject) -> dict[str, Any]:
    done = shiftboss("receipt", "show", "sums", "--swarm", SWARM, "--json", folder=project.folder)
    receipt: dict[str, Any] = json.loads(done.out)["signed_receipt"]["receipt"]
    return receipt


def _files(folder: Path) -> Iterator[tuple[str, str]]:
    """Everything that the run has left, but for its input and the database."""
    kept = {folder / "plan.yaml", folder / SOURCE, folder / "agent.py"}
    for path in folder.rglob("*"):
        if path.is_file() and path not in kept and not path.name.startswith("shiftboss.db"):
            yield str(path), f"{path.name} {path.read_bytes().decode('latin-1')}"


def _objects(repo: Path) -> str:
    """Also of commits that did not land, and all refs, messages and file names."""
    command = ["git", "cat-file", "--batch-all-objects", "--batch"]
    done = subprocess.run(command, cwd=repo, capture_output=True, check=True, timeout=60)
    refs = subprocess.run(["git", "show-ref"], cwd=repo, capture_output=True, check=True)
    return (done.stdout + refs.stdout).decode("latin-1")


def _commands(project: PlanProject) -> Iterator[tuple[str, str]]:
    of_task = ("sums", "--swarm", SWARM)
    for command in (
        ("status", SWARM, "--json"),
        ("why", *of_task, "--json"),
        ("task", "show", *of_task, "--json"),
        ("handoff", "show", *of_task, "--json"),
        ("receipt", "show", *of_task, "--json"),
        ("receipt", "show", *of_task),
        ("events", SWARM, "--json"),
    ):
        done = shiftboss(*command, folder=project.folder)
        assert done.code == 0, (command, done)
        assert done.out, command
        yield " ".join(command), done.out + done.err
