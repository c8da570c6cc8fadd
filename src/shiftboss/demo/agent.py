"""An agent without a model: `python -m shiftboss.demo.agent`, run in a work tree.

It writes the files of its task and commits them. Four of the tasks fail at first. It uses only the
standard library, and reports what it does as lines of JSON, as any program can.
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

from shiftboss.demo.files import (
    CRASHING_TASK,
    FALSE_CLAIM_TASK,
    FOREIGN_FILES,
    FULL_CONTEXT_TASK,
    OUT_OF_SCOPE_TASK,
    TASK_FILES,
    WRONG_FILES,
)

# The pause after each step, so that people can follow.
PAUSE_SECONDS: Final = 0.3
WAIT_SECONDS: Final = 600.0
CONTEXT_WINDOW: Final = 200_000


def main() -> None:
    task, is_first_attempt = os.environ["SHIFTBOSS_TASK"], os.environ["SHIFTBOSS_EPOCH"] == "1"
    # The orchestrator keeps the prompt of the first round when it sends a refusal.
    was_refused = Path(os.environ["SHIFTBOSS_PROMPT"]).with_name("prompt.1.md").exists()
    if task == CRASHING_TASK and is_first_attempt:
        crash(task)
    if task == FULL_CONTEXT_TASK and is_first_attempt:
        fill_context(task)
    if task == OUT_OF_SCOPE_TASK and not was_refused:
        leave_scope(task)
        return
    if was_refused:
        report_activity("reads why the claim was refused, and fixes it")
    if task == OUT_OF_SCOPE_TASK:
        # Commits can be rewritten until they are accepted.
        git("reset", "--quiet", "--hard", "HEAD~1")
    write(TASK_FILES[task])
    if task == FALSE_CLAIM_TASK and not was_refused:
        write(WRONG_FILES)
        report_activity("claims to be done without running the tests")
    commit(f"Add {task}")


def crash(task: str) -> None:
    write(dict([next(iter(TASK_FILES[task].items()))]))
    commit(f"Start {task}")
    report_activity("is about to crash")
    os.kill(os.getpid(), signal.SIGKILL)


def fill_context(task: str) -> None:
    """Do half of the work, report a nearly full context, and keep running."""
    write(dict([next(iter(TASK_FILES[task].items()))]))
    commit(f"Start {task}")
    report_activity("its context is nearly full")
    report("usage", context_tokens=CONTEXT_WINDOW * 3 // 4, context_window=CONTEXT_WINDOW)
    time.sleep(WAIT_SECONDS)


def leave_scope(task: str) -> None:
    """Edit a file of another task. The git hook refuses the commit, so bypass the hook."""
    write({**TASK_FILES[task], **FOREIGN_FILES})
    if commit(f"Add {task}, and improve the page") == 0:
        return
    report_activity("the hook refused the commit; commits without the hook")
    git("commit", "--quiet", "--no-verify", "--message", f"Add {task}, and improve the page")


def write(files: Mapping[str, str]) -> None:
    for name, text in files.items():
        report_activity(f"writes {name}")
        Path(name).write_text(text)
        time.sleep(PAUSE_SECONDS)


def commit(message: str) -> int:
    report_activity(f"commits: {message}")
    git("add", "--all")
    return git("commit", "--quiet", "--message", message)


def git(*arguments: str) -> int:
    program = shutil.which("git") or "git"
    return subprocess.run([program, *arguments], check=False).returncode


def report_activity(text: str) -> None:
    report("did", text=text)


def report(kind: str, **members: object) -> None:
    print(json.dumps({"shiftboss": kind, **members}), flush=True)


if __name__ == "__main__":
    main()
