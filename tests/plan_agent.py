"""A scripted agent: works properly, or misbehaves as its task says.

It writes NAME.py and a test of it. `DO: word word ...` in the description says how it misbehaves.
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

TASK = os.environ["SHIFTBOSS_TASK"]
EPOCH = int(os.environ["SHIFTBOSS_EPOCH"])
PROMPT = Path(os.environ["SHIFTBOSS_PROMPT"]).read_text()
MARKS = Path(os.environ["PLAN_AGENT_MARKS"])
JSON = "application/json"
WAS_REFUSED = "were refused" in PROMPT or "was refused" in PROMPT


def report(kind: str, **members: object) -> None:
    print(json.dumps({"shiftboss": kind, **members}), flush=True)


def git(*arguments: str) -> int:
    return subprocess.run(["git", *arguments], check=False).returncode


def commit(message: str) -> int:
    git("add", "--all")
    # Two attempts within one second would make the same commit otherwise.
    return git("commit", "--quiet", "-m", message, "-m", f"Attempt {EPOCH}")


def hang() -> None:
    (MARKS / f"{TASK}.{EPOCH}.hangs").write_text(str(os.getpid()))
    time.sleep(600)


def is_first_time(what: str) -> bool:
    mark = MARKS / f"{TASK}.{what}"
    if mark.exists():
        return False
    mark.touch()
    return True


def begin() -> None:
    Path(f"{TASK}.py").write_text("# begun\n")
    commit("Begin")


def misbehave(words: list[str]) -> None:
    if "crash" in words and is_first_time("crash"):
        begin()
        os.kill(os.getpid(), signal.SIGKILL)
    if "fill" in words and is_first_time("fill"):
        begin()
        Path("left.txt").write_text("not committed yet\n")
        report("did", text="half of the work is done")
        report("usage", input_tokens=9, context_tokens=150_000, context_window=200_000)
        hang()
    if ("quota" in words or "rationed" in words) and is_first_time("quota"):
        seconds = 86_400 if "rationed" in words else 1
        report("rate_limited", message="used up", until=time.time() + seconds)
        hang()
    if "denied" in words and is_first_time("denied"):
        for _ in range(107):
            report("denied", tool="Bash", error="Permission denied: mkdir")
        hang()
    if "spend" in words or ("overspend" in words and is_first_time("overspend")):
        report("usage", input_tokens=6000 if "overspend" in words else 1_000_000, output_tokens=1)
        hang()
    if "hang" in words and is_first_time("hang"):
        begin()
        hang()
    if "deaf" in words:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        hang()
    if "raze" in words and is_first_time("raze"):
        shutil.rmtree(Path.cwd())
        sys.exit()


def ask() -> None:
    """Exit without waiting for the answer; the next attempt gets it."""
    call_server("report_milestone", line="BLOCKED: which colour?")
    sys.exit(0)


def dispute() -> None:
    """Say with the command that the contract cannot be met, and exit."""
    command = [sys.executable, "-m", "shiftboss.cli.main", "dispute", TASK]
    reason = ["--kind", "impossible", "--reason", "nothing makes this pass"]
    subprocess.run([*command, *reason, "--swarm", os.environ["SHIFTBOSS_SWARM"]], check=True)
    sys.exit(0)


def dispute_and_stay() -> None:
    """Exit when the dispute is answered, without having read the answer."""
    call_server("dispute_contract", kind="impossible", reason="nothing makes this pass")
    for _ in range(3000):
        if post("show_task")["state"] != "blocked":
            break
        time.sleep(0.02)
    sys.exit(0)


def work(words: list[str]) -> None:
    if "dispute" in words and is_first_time("dispute"):
        dispute()
    if "dispute-and-stay" in words and is_first_time("dispute"):
        dispute_and_stay()
    if "ask" in words and is_first_time("ask"):
        ask()
    if "stray" in words and not WAS_REFUSED:
        Path("foreign.py").write_text("# not mine\n")
        refused = commit("Stray")
        (MARKS / f"{TASK}.hook").write_text(str(refused))
        git("commit", "--quiet", "--no-verify", "-m", "Stray anyway")
        return
    if "stray" in words:
        git("reset", "--quiet", "--hard", "HEAD~1")
    if "merge" in PROMPT and "-merge-" in TASK:
        merge()
        return
    is_wrong = "wrong" in words and not (MARKS / f"{TASK}.fixed").exists()
    sign = "+" if "stubborn" in words or is_wrong or ("lie" in words and not WAS_REFUSED) else "*"
    # Work that a person has rejected is not done the same way again, unless it ignores people.
    was_told = "A PERSON SAYS" in PROMPT and "ignore" not in words
    heeded = "# as you say\n" if was_told or "rejected by" in PROMPT else ""
    Path(f"{TASK}.py").write_text(f"{heeded}def it(a, b):\n    return a {sign} b\n")
    Path(f"test_{TASK}.py").write_text(
        f"import unittest\n\nimport {TASK}\n\n\nclass Test(unittest.TestCase):\n"
        f"    def test_it(self):\n        self.assertEqual({TASK}.it(2, 3), 6)\n"
    )
    if "shared" in words:
        Path("shared.txt").write_text(f"{TASK}\n")
    commit(f"Add {TASK}")


def merge() -> None:
    """Merge as the description says; both sides keep their line."""
    other = next(line.split()[-1] for line in PROMPT.splitlines() if "git merge" in line)
    git("merge", "--quiet", other)
    lines = [
        line
        for line in Path("shared.txt").read_text().splitlines()
        if not line.startswith(("<<<", "===", ">>>"))
    ]
    Path("shared.txt").write_text("".join(f"{line}\n" for line in lines))
    git("add", "--all")
    git("commit", "--quiet", "--no-edit")


def claim(wait_ms: int) -> None:
    """Claim the work itself, as agents with our tools do."""
    call_server("swarm_complete", summary="claimed by itself", wait_ms=wait_ms)


def call_server(operation: str, **members: object) -> None:
    post(operation, name=os.environ["SHIFTBOSS_WORKER"], epoch=EPOCH, **members)


def post(operation: str, **members: object) -> dict[str, object]:
    from urllib.request import Request, urlopen  # takes longer than most of what an agent does

    body = {"swarm_id": os.environ["SHIFTBOSS_SWARM"], "bead_id": TASK, **members}
    url, headers = f"{os.environ['SHIFTBOSS_URL']}/bus/{operation}", {"Content-Type": JSON}
    with urlopen(Request(url, json.dumps(body).encode(), headers), timeout=60) as response:
        answer: dict[str, object] = json.load(response)
    return answer


def report_usage_after_landing() -> None:
    """Report the usage only some time after the work has landed."""
    for _ in range(3000):
        landed = subprocess.check_output(["git", "log", "--format=%s", "main"], text=True)
        if f"Add {TASK}" in landed.splitlines():
            break
        time.sleep(0.01)
    time.sleep(1)
    report("usage", input_tokens=5000, output_tokens=500)


def main() -> None:
    words = next((line.split()[1:] for line in PROMPT.splitlines() if line.startswith("DO:")), [])
    report("did", text=f"starts {TASK}")
    report("usage", input_tokens=1000, output_tokens=100, dollars=0.01)
    if "quit" in words and WAS_REFUSED and is_first_time("quit"):
        sys.exit("giving up")
    misbehave(words)
    if "read" in words:
        return
    work(words)
    if "vanish" in words:
        shutil.rmtree(Path.cwd())
    if "hurry" in words:
        claim(wait_ms=0)
    if "claim" in words:
        claim(wait_ms=30_000)
        report_usage_after_landing()
    if "linger" in words:
        hang()
    if "error" in words and not (MARKS / f"{TASK}.fixed").exists():
        sys.exit("the agent failed")


if __name__ == "__main__":
    main()
