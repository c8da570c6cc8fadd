"""The scripted agent of the shop: works on a task as `script.json` beside it says.

`python agent.py SCRIPT`: of each task, its files, what it says, and how it gets into trouble.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

TASK = os.environ["SHIFTBOSS_TASK"]
EPOCH = int(os.environ["SHIFTBOSS_EPOCH"])
PROMPT = Path(os.environ["SHIFTBOSS_PROMPT"]).read_text()
WAS_REFUSED = "were refused" in PROMPT or "was refused" in PROMPT
WAS_ANSWERED = EPOCH > 1
POLL_SECONDS = 0.1
POLLS_MAX = 6000
CONTEXT_WINDOW = 200_000


def report(kind: str, **members: object) -> None:
    print(json.dumps({"shiftboss": kind, **members}), flush=True)


def say(text: str) -> None:
    report("did", text=text)


def spend(dollars: float, context: float) -> None:
    tokens = int(dollars * 100_000)
    report(
        "usage",
        input_tokens=tokens,
        output_tokens=tokens // 10,
        dollars=dollars,
        context_tokens=int(context * CONTEXT_WINDOW),
        context_window=CONTEXT_WINDOW,
    )


def call(operation: str, **members: object) -> dict[str, Any]:
    """The server may be restarted meanwhile."""
    body = {"swarm_id": os.environ["SHIFTBOSS_SWARM"], **members}
    headers = {"Content-Type": "application/json"}
    url = f"{os.environ['SHIFTBOSS_URL']}/bus/{operation}"
    for _ in range(POLLS_MAX):
        try:
            with urlopen(Request(url, json.dumps(body).encode(), headers), timeout=60) as response:
                answer: dict[str, Any] = json.load(response)
                return answer
        except (URLError, ConnectionError) as error:
            if getattr(error, "code", 0):
                raise
            time.sleep(POLL_SECONDS)
    sys.exit(f"{operation}: the server does not answer")


def tell_milestone(line: str) -> None:
    name = os.environ["SHIFTBOSS_WORKER"]
    call("report_milestone", bead_id=TASK, name=name, epoch=EPOCH, line=line)


def ask_for_files(paths: list[str], reason: str) -> None:
    """Ask, and wait until somebody has granted them."""
    name = os.environ["SHIFTBOSS_WORKER"]
    call("request_scope", bead_id=TASK, name=name, epoch=EPOCH, paths=paths, reason=reason)
    for _ in range(POLLS_MAX):
        requests = call("list_scope_requests", only_open=False)["requests"]
        if all(each["status"] == "granted" for each in requests if each["bead_id"] == TASK):
            return
        time.sleep(POLL_SECONDS)


def write(files: dict[str, str]) -> None:
    for name, text in files.items():
        say(f"writes {name}")
        Path(name).write_text(text)


def commit(message: str) -> None:
    subprocess.run(["git", "add", "--all"], check=True)
    body = f"Attempt {EPOCH}"  # two attempts within one second would make the same commit otherwise
    subprocess.run(["git", "commit", "--quiet", "-m", message, "-m", body], check=False)


def wait_for(mark: str) -> None:
    """Until the file exists; the run is stopped if it never does."""
    for _ in range(POLLS_MAX):
        if Path(mark).exists():
            return
        time.sleep(POLL_SECONDS)


def main(script: dict[str, Any]) -> None:
    for text in script.get("says", []):
        say(text)
    spend(script.get("dollars", 0.2), script.get("context", 0.2))
    working = f"WORKING: {script['title']} [substate: writing_new_code]"
    tell_milestone(f"{working} [files: 1/{len(script['files'])}]")
    if "asks" in script and not WAS_ANSWERED:
        tell_milestone(f"BLOCKED: {script['asks']}")
        return
    if "waits_for" in script:
        wait_for(script["waits_for"])
    if "wants" in script:
        ask_for_files(script["wants"], script["wants_because"])
    is_wrong = "wrong" in script and not WAS_REFUSED
    write(script["wrong"] if is_wrong else script["files"])
    say("claims to be done" if is_wrong else "runs the tests: all pass")
    commit(script["title"])


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text())[TASK])
