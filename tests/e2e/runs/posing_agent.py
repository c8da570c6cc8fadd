"""An agent that changes what is not its own, and then tries to let its check pass as the operator.

It runs as the user of the run, so it looks wherever that user's files are. `waived` waits for a
word before it changes anything, and does not try.
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
WAITS_SECONDS = 60


def post(path: str, operator: str, **members: object) -> int:
    body = json.dumps({"swarm_id": SWARM, "bead_id": TASK, **members}).encode()
    headers = {"Content-Type": "application/json", "Shiftboss-Operator": operator}
    request = Request(f"{os.environ['SHIFTBOSS_URL']}{path}", body, headers)
    try:
        with urlopen(request, timeout=60) as answer:
            return int(answer.status)
    except HTTPError as refused:
        return refused.code


def words_of_files() -> set[str]:
    """Every short line of every file of the run that could be a token."""
    found: set[str] = set()
    for file in MARKS.parent.rglob("*"):
        if file.is_file() and file.stat().st_size < 1000 and ".git" not in file.parts:
            found |= {line.strip() for line in file.read_text(errors="replace").splitlines()}
    return {one for one in found if one.isascii() and one.isprintable() and 20 <= len(one) <= 80}


def pose() -> None:
    waive = {"check": "scope", "reason": "mine", "granted_by": "me"}
    tried = [post("/operator/waive", one, **waive) for one in ["", *words_of_files()]]
    spawn = {"subtask_title": "Mine", "files": ["mine.py"], "repo": str(Path.cwd())}
    spawned = post("/bus/swarm_spawn_subtask", "", **{**spawn, "bead_id": "mine"})
    found = [str(one) for one in MARKS.parent.rglob("operator-token")]
    told = {"waives": sorted(set(tried)), "spawned": spawned, "found": found}
    told["variables"] = [name for name in os.environ if "OPERATOR" in name]
    (MARKS / "posed").write_text(json.dumps(told))


def main() -> None:
    if TASK == "waived":
        (MARKS / "address").write_text(os.environ["SHIFTBOSS_URL"])
        for _ in range(WAITS_SECONDS * 20):
            if (MARKS / "go").exists():
                break
            time.sleep(0.05)
    elif (MARKS / "posed").exists():
        sys.exit("it has had enough")
    Path(f"{TASK}.py").write_text("it = 6\n")
    Path(f"foreign_{TASK}.py").write_text("# not mine\n")
    for argv in (["add", "--all"], ["commit", "--quiet", "--no-verify", "-m", f"Add {TASK}"]):
        subprocess.run(["git", *argv], check=True)
    if TASK != "waived":
        pose()


if __name__ == "__main__":
    main()
