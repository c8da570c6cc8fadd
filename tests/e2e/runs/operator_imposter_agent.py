"""An agent that edits a file out of scope and then tries to waive the check as the operator.

It runs as the user of the run, so it searches all files of that user for the token. The task
`waived` waits for the file `go` before it edits anything, and does not try to waive.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

TASK = os.environ["SHIFTBOSS_TASK"]
SWARM = os.environ["SHIFTBOSS_SWARM"]
MARKS = Path(os.environ["PLAN_AGENT_MARKS"])
WAIT_SECONDS = 60


def post(path: str, operator: str, /, own: object = None, **members: object) -> int:
    body = json.dumps({"swarm_id": SWARM, "bead_id": TASK, **members}).encode()
    headers = {"Content-Type": "application/json", "Shiftboss-Operator": operator}
    if own is not None:
        headers["Authorization"] = f"Bearer {own}"
    request = Request(f"{os.environ['SHIFTBOSS_URL']}{path}", body, headers)
    try:
        with urlopen(request, timeout=60) as answer:
            return int(answer.status)
    except HTTPError as refused:
        return refused.code


def possible_tokens() -> set[str]:
    """Every line of the small files of the run that could be a token."""
    lines: set[str] = set()
    for file in MARKS.parent.rglob("*"):
        if file.is_file() and file.stat().st_size < 1000 and ".git" not in file.parts:
            lines |= {line.strip() for line in file.read_text(errors="replace").splitlines()}
    return {
        line for line in lines if line.isascii() and line.isprintable() and 20 <= len(line) <= 80
    }


def harm_others(own: str) -> list[int]:
    """What the agent can do with the token that it was given."""
    return [
        post("/bus/show_task", "", own),
        post("/bus/worker_done", "", own, bead_id="waived"),
        post("/bus/task_failed", "", own, bead_id="waived", reason="ha"),
        post("/bus/cancel_task", "", own, bead_id="waived"),
        post("/bus/set_budget", "", own, tokens=1),
        post("/operator/waive", own, own, check="scope", reason="mine"),
    ]


def impersonate_operator() -> None:
    waive = {"check": "scope", "reason": "mine", "granted_by": "me"}
    statuses = [post("/operator/waive", token, **waive) for token in ["", *possible_tokens()]]
    spawn = {"subtask_title": "Mine", "files": ["mine.py"], "repo": str(Path.cwd())}
    spawned = post("/bus/swarm_spawn_subtask", "", **{**spawn, "bead_id": "mine"})
    found = [str(path) for path in MARKS.parent.rglob("operator-token")]
    attempt = {"waives": sorted(set(statuses)), "spawned": spawned, "found": found}
    attempt["variables"] = [name for name in os.environ if "OPERATOR" in name]
    attempt["with own token"] = harm_others(os.environ["SHIFTBOSS_TOKEN"])
    (MARKS / "imposter").write_text(json.dumps(attempt))


def main() -> None:
    if TASK == "waived":
        (MARKS / "address").write_text(os.environ["SHIFTBOSS_URL"])
        for _ in range(WAIT_SECONDS * 20):
            if (MARKS / "go").exists():
                break
            time.sleep(0.05)
    elif (MARKS / "imposter").exists():
        sys.exit("giving up")
    Path(f"{TASK}.py").write_text("it = 6\n")
    Path(f"foreign_{TASK}.py").write_text("# not mine\n")
    for argv in (["add", "--all"], ["commit", "--quiet", "--no-verify", "-m", f"Add {TASK}"]):
        subprocess.run(["git", *argv], check=True)
    if TASK != "waived":
        impersonate_operator()


if __name__ == "__main__":
    main()
