"""The tutorial about running a plan works as written: its files, commands and results."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.commands import Done, shiftboss
from tests.repos import ENVIRONMENT

PAGE = Path(__file__).parents[3] / "docs" / "tutorial-run.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)


def git(folder: Path, *arguments: str) -> str:
    result = subprocess.run(
        ["git", *arguments], cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=True
    )
    return result.stdout


@pytest.mark.requirement("OWN-01")
def test_the_plan_of_the_tutorial_lands_as_described(tmp_path: Path) -> None:
    def call(*arguments: str) -> Done:
        done = shiftboss(
            *arguments,
            folder=folder,
            XDG_STATE_HOME=str(tmp_path / "state"),
            # Instead of the tutorial's `git config`.
            GIT_CONFIG_GLOBAL=str(names),
        )
        assert done.code == 0, (arguments, done)
        return done

    folder, names = tmp_path / "greetings", tmp_path / "names"
    names.write_text("[user]\nname = You\nemail = you@shiftboss.invalid\n")
    folder.mkdir()
    git(folder, "init", "--quiet", "-b", "main")
    for name, text in zip(("test_greetings.py", "agent.py"), blocks("python"), strict=True):
        (folder / name).write_text(text)
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "A test for greetings")
    call("init")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "Set up Shiftboss")
    plan, additional_task, for_claude = blocks("yaml")
    file = folder / "plan.yaml"
    file.write_text(for_claude)
    call("plan", "check", "plan.yaml", "--no-agents")
    file.write_text(plan)
    call("plan", "check", "plan.yaml")
    call("plan", "show", "plan.yaml")
    assert "critical path: hello -> thanks" in call("run", "plan.yaml", "--dry-run").out

    output = call("run", "plan.yaml").out
    assert "goodbye: refused: criterion: Tests pass: python3 test_greetings.py goodbye" in output
    for task in ("hello", "goodbye", "thanks"):
        assert re.search(rf"^landed +{task} ", output, re.MULTILINE), output
    assert "README.md was added and is not in files_owned" in call("logs", "hello").out
    assert "+++ b/hello.py" in call("diff", "hello").out  # from the database, without a server

    file.write_text(f"{plan}\n{additional_task}")
    output = call("run", "plan.yaml", "--no-auto-merge").out
    assert re.search(r"^accepted +welcome ", output, re.MULTILINE), output
    assert git(folder, "log", "--oneline", "main..shiftboss/welcome").count("\n") == 1
    output = call("land", "plan.yaml").out
    assert re.search(r"^landed +welcome  [0-9a-f]{12}  receipt rcpt-", output, re.MULTILINE), output
    files = git(folder, "ls-tree", "--name-only", "main").split()
    assert {"hello.py", "goodbye.py", "thanks.py", "welcome.py"} <= set(files)
    assert "README.md" not in files
    (folder / "key.pem").write_text(call("receipt", "key").out)
    call("receipt", "export", "hello", "--swarm", "greetings", "--out", "hello.json")
    call("receipt", "verify", "hello.json", "--key", "key.pem")
    call("init", "--remove")
    assert {"AGENTS.md", "shiftboss.yaml", ".mcp.json"}.isdisjoint(
        entry.name for entry in folder.iterdir()
    )
