"""Projects with a plan, which is run by the real command with real git and a scripted agent."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from shiftboss.evidence.attestations import NotedReceipt, verify_note
from shiftboss.evidence.keys import KEY_FILE, SigningKey
from tests.client import Client
from tests.fork_server import start_python
from tests.repo_templates import make_once
from tests.running import RunningServer
from tests.waiting import wait_until

AGENT = Path(__file__).with_name("plan_agent.py")
# Without site packages: it starts in half of the time.
QUICK_PYTHON = [sys.executable, "-I", "-S"]
CRITERION = "Tests pass: python3 -m unittest"
# These tests are about runs. How the tests of a claim are tested is shown elsewhere.
FEWER_RUNS = {"canaries": "off", "mutants": "off"}
RUN_SECONDS = 120.0


class PlanRun:
    """`shiftboss run` in a separate process."""

    def __init__(
        self, arguments: list[str], folder: Path, environment: dict[str, str], forked: bool = True
    ) -> None:
        self._process = start_python(
            ["-m", "shiftboss.cli.main", *arguments],
            environment=environment,
            folder=folder,
            forked=forked,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def outcome(self, seconds: float = RUN_SECONDS) -> dict[str, Any]:
        """The JSON output. Checks that the exit code agrees with it."""
        out, err = self._wait(seconds)
        assert out, err
        outcome: dict[str, Any] = json.loads(out)
        assert (self._process.returncode == 0) == outcome.get("done"), err
        return outcome

    def stop(self, number: signal.Signals = signal.SIGKILL) -> None:
        if self._process.poll() is None:
            self._process.send_signal(number)
        self._wait(60)

    def _wait(self, seconds: float) -> tuple[str, str]:
        try:
            out, err = self._process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            out, err = self._process.communicate()
            raise AssertionError(f"the run did not end:\n{out!r}\n{err!r}") from None
        return out.decode(), err.decode()


class PlanProject:
    """A folder with one repository `shop`, a plan, and everything that its runs leave behind."""

    forked = True  # see `fork_server`

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.repo = folder / "shop"
        self.marks = folder / "marks"
        self.trees = folder / "trees"
        self.marks.mkdir()
        self.repo.mkdir()
        make_once("PlanProject", self.repo, self._make_repo)

    def _make_repo(self) -> None:
        self.git("init", "--quiet", "--initial-branch=main")
        self.git("config", "user.name", "Owner")
        self.git("config", "user.email", "owner@example.com")
        # No git process after each commit that finds nothing to do.
        self.git("config", "maintenance.auto", "false")
        (self.repo / "test_base.py").write_text(
            "import unittest\n\n\nclass Test(unittest.TestCase):\n"
            "    def test_it(self):\n        self.assertTrue(True)\n"
        )
        (self.repo / "shared.txt").write_text("first\n")
        (self.repo / ".gitignore").write_text("__pycache__/\n")
        self.git("add", "--all")
        self.git("commit", "--quiet", "-m", "First")

    def git(self, *arguments: str) -> str:
        result = subprocess.run(
            ["git", *arguments],
            cwd=self.repo,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert result.returncode == 0, f"git {arguments}: {result.stderr}"
        return result.stdout.strip()

    def plan(self, *tasks: dict[str, Any], **members: Any) -> None:
        plan = {
            "goal": "Sums",
            "repos": {"shop": {"path": "shop", "verification": FEWER_RUNS}},
            "agents": {"script": {"kind": "command", "command": [*QUICK_PYTHON, str(AGENT)]}},
            "agent": "script",
            "workers": 2,
            "tasks": list(tasks),
            **members,
        }
        (self.folder / "plan.yaml").write_text(yaml.safe_dump(plan))

    def start(self, *arguments: str, command: str = "run") -> PlanRun:
        options = ["--trees", str(self.trees)] if command == "run" else []
        arguments = (command, "plan.yaml", "--own-server", "--json", *options, *arguments)
        return PlanRun(list(arguments), self.folder, self.environment(), forked=self.forked)

    def run(self, *arguments: str, command: str = "run") -> dict[str, Any]:
        return self.start(*arguments, command=command).outcome()

    def environment(self) -> dict[str, str]:
        variables = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        return {**variables, "HOME": str(home), "PLAN_AGENT_MARKS": str(self.marks)}

    def wait_for_agent(self, name: str) -> int:
        """Wait until an agent hangs; returns its process id."""
        mark = self.marks / f"{name}.hangs"
        wait_until(lambda: mark.exists() and mark.read_text(), f"{name} hangs", 60)
        return int(mark.read_text())

    def log(self) -> str:
        """The log of all runs of this project."""
        files = (self.folder / ".shiftboss" / "runs").glob("*/run.log")
        return "".join(file.read_text() for file in files)

    @contextmanager
    def running_client(self) -> Iterator[Client]:
        """A client of the server that the current run has started."""
        wait_until(lambda: " at http://" in self.log(), "the server has started", 60)
        client = Client(self.log().rpartition(" at ")[2].split()[0])
        try:
            yield client
        finally:
            client.close()

    @contextmanager
    def client_after_run(self, **settings: object) -> Iterator[Client]:
        """A client of a server on the database that the runs have left."""
        server = RunningServer(self.folder / ".shiftboss" / "shiftboss.db", **settings).start()
        client = Client(server.url)
        try:
            yield client
        finally:
            client.close()
            server.close()

    def landed(self) -> list[str]:
        """The subjects of the commits on main, the oldest first, without merges."""
        return self.git("log", "--no-merges", "--reverse", "--format=%s", "main").splitlines()

    def noted_receipts(self) -> dict[str, list[NotedReceipt]]:
        """The receipts in the notes, verified, by the subject of the commit that has the note."""
        pem = SigningKey.load_or_create(self.folder / ".shiftboss" / KEY_FILE).public_pem
        notes = self.git("notes", "--ref=shiftboss", "list").splitlines()
        return {
            self.git("log", "-1", "--format=%s", commit): verify_note(
                self.git("notes", "--ref=shiftboss", "show", commit).encode(), commit, pem
            )
            for commit in (line.split()[1] for line in notes)
            if commit in self.git("rev-list", "main").split()
        }

    @property
    def worktrees(self) -> list[str]:
        return self.git("worktree", "list").splitlines()[1:]


def task(name: str, *needs: str, do: str = "", **members: Any) -> dict[str, Any]:
    return {
        "id": name,
        "title": f"Add {name}",
        "description": f"DO: {do}" if do else "",
        "depends_on": list(needs),
        "files_owned": [f"{name}.py", f"test_{name}.py"],
        "criteria": [CRITERION],
        **members,
    }
