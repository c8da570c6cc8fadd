"""A minimal agent: commits one file, and records when it began and ended."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

TASK = os.environ["SHIFTBOSS_TASK"]


def main() -> None:
    began_at = time.time()
    name = f"{TASK}.txt"
    Path(name).write_text(f"{TASK}\n")
    subprocess.run(["git", "add", name], check=True)
    subprocess.run(["git", "commit", "--quiet", "--message", f"Add {TASK}"], check=True)
    Path(os.environ["BENCH_TIMES"], TASK).write_text(f"{began_at} {time.time()}")


if __name__ == "__main__":
    main()
