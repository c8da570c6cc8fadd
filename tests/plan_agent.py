"""An agent that does as its task says: an honest one, or one of those that make trouble.

`DO: word word ...` in the description says what. It writes NAME.py and a test of it.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import Request, urlopen

TASK = os.environ["SHIFTBOSS_TASK"]
EPOCH = int(os.environ["SHIFTBOSS_EPOCH"])
PROMPT = Path(os.environ["SHIFTBOSS_PROMPT"]).read_text()
MARKS = Path(os.environ["PLAN_AGENT_MARKS"])
JSON = "application/json"
AGAIN = "they were refused" in PROMPT


def say(kind: str, **members: object) -> None:
    print(json.dumps({"shiftboss": kind, **members}), flush=True)


def git(*arguments: str) -> int:
    return subprocess.run(["git", *arguments], check=False).returncode


def commit(message: str) -> int:
    git("add", "--all")
    return git("commit", "--quiet", "-m", message)


def wait_for_the_end() -> None:
    (MARKS / f"{TASK}.{EPOCH}.waits").write_text(str(os.getpid()))
    time.sleep(600)


def first_time(what: str) -> bool:
    mark = MARKS / f"{TASK}.{what}"
    if mark.exists():
        return False
    mark.touch()
    return True


def begin() -> None:
    Path(f"{TASK}.py").write_text("# begun\n")
    commit("Begin")


def make_trouble(words: list[str]) -> None:
    if "crash" in words and first_time("crash"):
        begin()
        os.kill(os.getpid(), signal.SIGKILL)
    if "fill" in words and first_time("fill"):
        begin()
        Path("left.txt").write_text("not committed yet\n")
        say("did", text="half of it is done")
        say("usage", input_tokens=9, context_tokens=150_000, context_window=200_000)
        wait_for_the_end()
    if "quota" in words and first_time("quota"):
        say("rate_limited", message="used up", until=time.time() + 1)
        wait_for_the_end()
    if "denied" in words and first_time("denied"):
        for _ in range(107):
            say("denied", tool="Bash", error="Permission denied: mkdir")
        wait_for_the_end()
    if "spend" in words:
        say("usage", input_tokens=1_000_000, output_tokens=1)
        wait_for_the_end()
    if "hang" in words and first_time("hang"):
        begin()
        wait_for_the_end()
    if "deaf" in words:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        wait_for_the_end()
    if "raze" in words and first_time("raze"):
        shutil.rmtree(Path.cwd())
        sys.exit()


def ask() -> None:
    """It does not wait for the answer; the next attempt gets it."""
    report("report_milestone", line="BLOCKED: which colour?")
    sys.exit(0)


def work(words: list[str]) -> None:
    if "ask" in words and first_time("ask"):
        ask()
    if "stray" in words and not AGAIN:
        Path("foreign.py").write_text("# not mine\n")
        refused = commit("Stray")
        (MARKS / f"{TASK}.hook").write_text(str(refused))
        git("commit", "--quiet", "--no-verify", "-m", "Stray all the same")
        return
    if "stray" in words:
        git("reset", "--quiet", "--hard", "HEAD~1")
    if "merge" in PROMPT and "-merge-" in TASK:
        merge()
        return
    sign = "+" if "stubborn" in words or ("lie" in words and not AGAIN) else "*"
    Path(f"{TASK}.py").write_text(f"def it(a, b):\n    return a {sign} b\n")
    Path(f"test_{TASK}.py").write_text(
        f"import unittest\n\nimport {TASK}\n\n\nclass Test(unittest.TestCase):\n"
        f"    def test_it(self):\n        self.assertEqual({TASK}.it(2, 3), 6)\n"
    )
    if "shared" in words:
        Path("shared.txt").write_text(f"{TASK}\n")
    commit(f"Add {TASK}")


def merge() -> None:
    """As its description says; both sides keep their line."""
    other = next(line.split()[-1] for line in PROMPT.splitlines() if "git merge" in line)
    git("merge", "--quiet", other)
    kept = [
        line
        for line in Path("shared.txt").read_text().splitlines()
        if not line.startswith(("<<<", "===", ">>>"))
    ]
    Path("shared.txt").write_text("".join(f"{line}\n" for line in kept))
    git("add", "--all")
    git("commit", "--quiet", "--no-edit")


def claim(wait_ms: int) -> None:
    """By itself, as agents do that have our tools."""
    report("swarm_complete", summary="claimed by itself", wait_ms=wait_ms)


def report(operation: str, **members: object) -> None:
    body = {
        "swarm_id": os.environ["SHIFTBOSS_SWARM"],
        "bead_id": TASK,
        "name": os.environ["SHIFTBOSS_WORKER"],
        "epoch": EPOCH,
        **members,
    }
    url, kind = f"{os.environ['SHIFTBOSS_URL']}/bus/{operation}", {"Content-Type": JSON}
    with urlopen(Request(url, json.dumps(body).encode(), kind), timeout=60):
        pass


def say_last_words() -> None:
    """Some time after the work has landed; only then it tells what it has used."""
    for _ in range(3000):
        landed = subprocess.check_output(["git", "log", "--format=%s", "main"], text=True)
        if f"Add {TASK}" in landed.splitlines():
            break
        time.sleep(0.01)
    time.sleep(1)
    say("usage", input_tokens=5000, output_tokens=500)


def main() -> None:
    words = next((line.split()[1:] for line in PROMPT.splitlines() if line.startswith("DO:")), [])
    say("did", text=f"begins with {TASK}")
    say("usage", input_tokens=1000, output_tokens=100, dollars=0.01)
    if "quit" in words and AGAIN and first_time("quit"):
        sys.exit("it has had enough")
    make_trouble(words)
    work(words)
    if "vanish" in words:
        shutil.rmtree(Path.cwd())
    if "hurry" in words:
        claim(wait_ms=0)
    if "claim" in words:
        claim(wait_ms=30_000)
        say_last_words()
    if "linger" in words:
        wait_for_the_end()
    if "error" in words and not (MARKS / f"{TASK}.mended").exists():
        sys.exit("it did not work out")


if __name__ == "__main__":
    main()
