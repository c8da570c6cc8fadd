"""A task with a contract: an honest worker is accepted, a cheat is refused.

    python examples/handoff/run.py

All of it happens in a temporary folder, with a server of its own. Every line that begins with `$`
is a command that you could type yourself. The exit code is 0 when all went as it should.
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
NAME = ("-c", "user.name=Worker", "-c", "user.email=worker@example.com")

PROJECT = {
    "prices.py": "def total(prices):\n    return 0\n",
    "shop.py": "from prices import total\n",
    "check_prices.py": "from prices import total\n\nassert total([1, 2]) == 3, total([1, 2])\n",
}
HONEST = {"prices.py": "def total(prices):\n    return sum(prices)\n"}
CHEAT = {
    "check_prices.py": "from prices import total\n",  # nothing is asserted any more
    "prices.py": "def total(prices):\n    return 0  # later\n",
    "shop.py": "from prices import total\n\nprint('trust me')\n",
}
# Settings for another server are not for this one.
ENVIRONMENT = {name: value for name, value in os.environ.items() if "SHIFTBOSS_" not in name}


class UnexpectedError(Exception):
    """The example did not go as it should."""


class Room:
    """A repository, and commands that know where the server is."""

    def __init__(self, folder: Path, address: str) -> None:
        self.repo = folder / "shop"
        self._environment = {**ENVIRONMENT, "SHIFTBOSS_URL": address}

    def make_repo(self) -> None:
        self.repo.mkdir()
        self.git("init", "--quiet", "--initial-branch=main")
        self.commit("A shop that cannot add", PROJECT)

    def git(self, *arguments: str) -> None:
        subprocess.run(["git", *NAME, *arguments], cwd=self.repo, check=True)  # noqa: S607

    def commit(self, message: str, files: dict[str, str]) -> None:
        for name, text in files.items():
            (self.repo / name).write_text(text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", message)

    def shiftboss(self, *arguments: str, code: int = 0) -> str:
        """Say what is run, run it, and insist on how it ends. What it printed."""
        print("$ shiftboss", *(f"'{one}'" if " " in one else one for one in arguments))
        done = subprocess.run(
            [*SHIFTBOSS, *arguments],
            cwd=self.repo,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        print(done.stdout, flush=True)
        if done.returncode != code:
            raise UnexpectedError(f"that ended with {done.returncode} and not with {code}")
        return done.stdout


def say(text: str) -> None:
    print(f"## {text}\n", flush=True)


@contextlib.contextmanager
def server(folder: Path) -> Iterator[str]:
    """A server on a free port; its address."""
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


def honest_worker(room: Room) -> None:
    say("An honest worker does the task on a branch of its own, and says so")
    room.git("checkout", "--quiet", "-b", "add-up", "main")
    spawn(room, "add-up")
    room.commit("Add up", HONEST)
    room.shiftboss("complete", "add-up", "--summary", "total() adds the prices up")
    room.shiftboss("receipt", "export", "add-up", "--out", "../receipt.json")


def check_offline(room: Room, folder: Path) -> None:
    say("The receipt is checked with the public key alone; no server is asked")
    room.shiftboss("receipt", "verify", "../receipt.json", "--key", "../key.pem")
    say("A forged receipt is found out")
    genuine = (folder / "receipt.json").read_text()
    (folder / "forged.json").write_text(genuine.replace("adds the prices up", "is perfect"))
    room.shiftboss("receipt", "verify", "../forged.json", "--key", "../key.pem", code=1)


def cheat(room: Room) -> None:
    say("A cheat takes the check away instead of doing the work, and says that it is done")
    room.git("checkout", "--quiet", "-b", "add-up-again", "main")
    spawn(room, "add-up-again")
    room.commit("All green!", CHEAT)
    room.shiftboss("complete", "add-up-again", "--summary", "Everything passes", code=1)


def spawn(room: Room, task: str) -> None:
    room.shiftboss(
        *("handoff", "spawn", task, "--title", "Let total() add the prices up"),
        *("--files", "prices.py", "--readonly", "check_prices.py", "--target", "main"),
        *("--criterion", "Command passes: python3 check_prices.py"),
    )


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="shiftboss-handoff-") as name:
        folder = Path(name)
        try:
            with server(folder) as address:
                room = Room(folder, address)
                room.make_repo()
                honest_worker(room)
                (folder / "key.pem").write_text(room.shiftboss("receipt", "key"))
                cheat(room)
            check_offline(room, folder)
        except UnexpectedError as error:
            print(error, file=sys.stderr)
            return 1
    say("The honest work was accepted with a receipt, the cheat was refused")
    return 0


if __name__ == "__main__":
    sys.exit(main())
