"""A task with a contract: an honest worker is accepted, a cheat is refused.

    python examples/handoff/run.py

Everything happens in a temporary folder, with its own server. Every line that starts with `$` is a
command that you could type yourself. The exit code is 0 if everything went as expected.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

SHIFTBOSS = [sys.executable, "-m", "shiftboss.cli.main"]
IDENTITY = ("-c", "user.name=Worker", "-c", "user.email=worker@example.com")

PROJECT = {
    "prices.py": "def total(prices):\n    return 0\n",
    "shop.py": "from prices import total\n",
    "check_prices.py": "from prices import total\n\nassert total([1, 2]) == 3, total([1, 2])\n",
}
HONEST = {"prices.py": "def total(prices):\n    return sum(prices)\n"}
CHEAT = {
    "check_prices.py": "from prices import total\n",  # without the assertion
    "prices.py": "def total(prices):\n    return 0  # later\n",
    "shop.py": "from prices import total\n\nprint('trust me')\n",
}
# Without the settings of another server.
ENVIRONMENT = {name: value for name, value in os.environ.items() if "SHIFTBOSS_" not in name}


class UnexpectedError(Exception):
    """The example did not go as expected."""


class Project:
    """A repository, and commands with the address of the server."""

    def __init__(self, folder: Path, address: str) -> None:
        self.repo = folder / "shop"
        self._environment = {**ENVIRONMENT, "SHIFTBOSS_URL": address}

    def create_repo(self) -> None:
        self.repo.mkdir()
        self.git("init", "--quiet", "--initial-branch=main")
        self.commit("A shop that cannot add", PROJECT)

    def git(self, *arguments: str) -> None:
        subprocess.run(["git", *IDENTITY, *arguments], cwd=self.repo, check=True)  # noqa: S607

    def commit(self, message: str, files: dict[str, str]) -> None:
        for name, text in files.items():
            (self.repo / name).write_text(text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", message)

    def shiftboss(self, *arguments: str, code: int = 0) -> str:
        """Print a command, run it, check its exit code; returns its output."""
        print("$ shiftboss", *(f"'{word}'" if " " in word else word for word in arguments))
        result = subprocess.run(
            [*SHIFTBOSS, *arguments],
            cwd=self.repo,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        print(result.stdout, flush=True)
        if result.returncode != code:
            raise UnexpectedError(f"exit code {result.returncode}, expected {code}")
        return result.stdout


def print_heading(text: str) -> None:
    print(f"## {text}\n", flush=True)


@contextlib.contextmanager
def server(folder: Path) -> Iterator[str]:
    """Start a server on a free port; yields its address."""
    command = [*SHIFTBOSS, "serve", "--port", "0", "--db", str(folder / "state" / "shiftboss.db")]
    with subprocess.Popen(
        command, cwd=folder, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                raise UnexpectedError("the server did not start")
            yield line.removeprefix("listening on ").split(";")[0]
        finally:
            process.terminate()


def honest_worker(project: Project) -> None:
    print_heading("An honest worker does the task on its own branch and claims it")
    project.git("checkout", "--quiet", "-b", "add-up", "main")
    spawn(project, "add-up")
    project.commit("Add up", HONEST)
    project.shiftboss("complete", "add-up", "--summary", "total() adds the prices up")
    project.shiftboss("receipt", "export", "add-up", "--out", "../receipt.json")


def check_offline(project: Project, folder: Path) -> None:
    print_heading("The receipt is verified with the public key, without the server")
    project.shiftboss("receipt", "verify", "../receipt.json", "--key", "../key.pem")
    print_heading("A forged receipt is detected")
    genuine = (folder / "receipt.json").read_text()
    (folder / "forged.json").write_text(genuine.replace("adds the prices up", "is perfect"))
    project.shiftboss("receipt", "verify", "../forged.json", "--key", "../key.pem", code=1)


def cheat(project: Project) -> None:
    print_heading("A cheat empties the check instead of doing the work, and claims to be done")
    project.git("checkout", "--quiet", "-b", "add-up-again", "main")
    spawn(project, "add-up-again")
    project.commit("All green!", CHEAT)
    project.shiftboss("complete", "add-up-again", "--summary", "Everything passes", code=1)


def spawn(project: Project, task: str) -> None:
    project.shiftboss(
        *("handoff", "spawn", task, "--title", "Let total() add the prices up"),
        *("--files", "prices.py", "--readonly", "check_prices.py", "--target", "main"),
        *("--criterion", "Command passes: python3 check_prices.py"),
    )


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="shiftboss-handoff-") as name:
        folder = Path(name)
        try:
            with server(folder) as address:
                project = Project(folder, address)
                project.create_repo()
                honest_worker(project)
                (folder / "key.pem").write_text(project.shiftboss("receipt", "key"))
                cheat(project)
            check_offline(project, folder)
        except UnexpectedError as error:
            print(error, file=sys.stderr)
            return 1
    print_heading("The honest work was accepted with a receipt, the cheat was refused")
    return 0


if __name__ == "__main__":
    sys.exit(main())
