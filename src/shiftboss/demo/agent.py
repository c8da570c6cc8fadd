"""An agent without a model: `python -m shiftboss.demo.agent`, in a work tree.

It writes what its task wants and commits it. Four of them go wrong first. It needs the standard
library alone, and what it says of itself are lines of JSON, as any program may say them.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from shiftboss.demo.material import CRASHING, FALSE, FOREIGN, FULL, LYING, STRAYING, WORK

# How long it thinks between two steps, so that people can follow.
PACE_SECONDS: Final = 0.3
WAIT_SECONDS: Final = 600.0
CONTEXT_WINDOW: Final = 200_000


def main() -> None:
    task, is_first = os.environ["SHIFTBOSS_TASK"], os.environ["SHIFTBOSS_EPOCH"] == "1"
    refused = "they were refused" in Path(os.environ["SHIFTBOSS_PROMPT"]).read_text()
    if task == CRASHING and is_first:
        crash(task)
    if task == FULL and is_first:
        fill_context(task)
    if task == STRAYING and not refused:
        stray(task)
        return
    if refused:
        did("reads why it was refused, and mends it")
    if task == STRAYING:
        # The commits are ours alone until they are accepted.
        git("reset", "--quiet", "--hard", "HEAD~1")
    write(WORK[task])
    if task == LYING and not refused:
        write(FALSE)
        did("has not run the tests, and says that it is done")
    commit(f"Add {task}")


def crash(task: str) -> None:
    write(dict([next(iter(WORK[task].items()))]))
    commit(f"Begin with {task}")
    did("is about to crash")
    os.kill(os.getpid(), signal.SIGKILL)


def fill_context(task: str) -> None:
    """It has done half of its work, and would go on for long."""
    write(dict([next(iter(WORK[task].items()))]))
    commit(f"Begin with {task}")
    did("has read too much: its context is nearly full")
    say("usage", context_tokens=CONTEXT_WINDOW * 3 // 4, context_window=CONTEXT_WINDOW)
    time.sleep(WAIT_SECONDS)


def stray(task: str) -> None:
    """The hook of git refuses; so it goes around the hook."""
    write({**WORK[task], **FOREIGN})
    if commit(f"Add {task}, and mend the page") == 0:
        return
    did("the commit was refused; tries it without the hook")
    git("commit", "--quiet", "--no-verify", "--message", f"Add {task}, and mend the page")


def write(files: Mapping[str, str]) -> None:
    for name, text in files.items():
        did(f"writes {name}")
        Path(name).write_text(text)
        time.sleep(PACE_SECONDS)


def commit(message: str) -> int:
    did(f"commits: {message}")
    git("add", "--all")
    return git("commit", "--quiet", "--message", message)


def git(*arguments: str) -> int:
    program = shutil.which("git") or "git"
    return subprocess.run([program, *arguments], check=False).returncode


def did(text: str) -> None:
    say("did", text=text)


def say(kind: str, **members: object) -> None:
    print(json.dumps({"shiftboss": kind, **members}), flush=True)


if __name__ == "__main__":
    main()
