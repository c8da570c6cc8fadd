"""A slow agent: makes two commits, and lists each in a file for the test.

It continues where an earlier attempt has left the branch, so the work is done once.
"""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

TASK = os.environ["SHIFTBOSS_TASK"]
MARKS = Path(os.environ["PLAN_AGENT_MARKS"])
WORK_SECONDS = float(os.environ["CHAOS_WORK_SECONDS"])


def git(*arguments: str) -> str:
    result = subprocess.run(["git", *arguments], check=True, capture_output=True, text=True)
    return result.stdout.strip()


def commit(message: str) -> None:
    git("add", "--all")
    if git("status", "--porcelain"):
        git("commit", "--quiet", "-m", message)
    with (MARKS / "commits").open("a") as log:
        log.write(f"{TASK} {git('rev-parse', 'HEAD')}\n")


def main() -> None:
    module, test = Path(f"{TASK}.py"), Path(f"test_{TASK}.py")
    if not module.exists():
        module.write_text("def it(a, b):\n    return a * b\n")
        commit(f"Start {TASK}")
    time.sleep(WORK_SECONDS)
    test.write_text(
        f"import unittest\n\nimport {TASK}\n\n\nclass Test(unittest.TestCase):\n"
        f"    def test_it(self):\n        self.assertEqual({TASK}.it(2, 3), 6)\n"
    )
    commit(f"Add {TASK}")


if __name__ == "__main__":
    main()
