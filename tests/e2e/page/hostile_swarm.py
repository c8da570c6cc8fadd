"""A swarm in which every text that somebody may write is an attack on who reads it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

from tests.e2e.page.page_operator import Operator
from tests.plan_runs import FEWER_RUNS
from tests.repos import Repo

SWARM: Final = "hostile"
MARKUP: Final = (
    "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"
    "<svg onload='window.hacked = 1'><a href='javascript:window.hacked = 1'>go</a>"
)
ESCAPES: Final = "\x1b[2J\x1b[31mred\x1b]8;;http://evil.example\x07link\x1b]8;;\x07\x9b1m\r\x08"
DIRECTIONS: Final = "\u202egnp.exe\u202c\u2067\u200f\u061c\u200e\u2066"
UNSEEN: Final = (
    "zero\u200b\u200c\u200d\u2060\ufeff\u00adwidth\U000e0041" + "o\u0301\u0320\u0337" * 40
)
ADDRESS: Final = "javascript:window.hacked=1 //evil.example/x http://evil.example/{{7*7}}${7*7}"
HOSTILE: Final = f"{MARKUP} {ESCAPES} {DIRECTIONS} {UNSEEN} {ADDRESS}"
LONG: Final = "n" * 10_000

# The tasks of the swarm, by what has happened to them.
REFUSED, ACCEPTED, ASKING, FAILED, WAITING = (
    "t-refused",
    "t-accepted",
    "t-asking",
    "t-failed",
    "t-b",
)
_FILE: Final = "src/auth/<img src=x onerror=alert(1)>\u202egnp.py"
_WORKER: Final = "w-1"


def fill(operator: Operator, state_folder: Path, folder: Path) -> str:
    """Returns the swarm's id. Every column of the board but `verifying` has a card."""
    operator.create_swarm(SWARM, HOSTILE[:200])
    _claim(operator, Repo(folder / "refused"), REFUSED, {_FILE: _source(), "README.md": LONG})
    _claim(operator, Repo(folder / "accepted"), ACCEPTED, {_FILE: _source()}, review="required")
    for task, title in ((ASKING, HOSTILE[:500]), (FAILED, LONG[:500]), (WAITING, DIRECTIONS)):
        operator.bus("add_task", SWARM, bead_id=task, title=title, priority=1)
        operator.bus("submit_task", SWARM, bead_id=task)
    operator.bus("add_task", SWARM, bead_id="t-c", title=MARKUP, depends_on=[WAITING])
    _ask(operator)
    operator.bus("register_worker", SWARM, name="w-2")
    operator.start(SWARM, "w-2")
    operator.bus("task_failed", SWARM, bead_id=FAILED, name="w-2", epoch=1, reason=HOSTILE[:2000])
    _write_log(state_folder / "runs" / SWARM / f"{ASKING}.1")
    return SWARM


def _claim(
    operator: Operator, repo: Repo, task: str, files: dict[str, str], **members: str
) -> None:
    operator.operate(
        "spawn_subtask",
        swarm_id=SWARM,
        bead_id=task,
        subtask_title=HOSTILE[:500],
        subtask_description=HOSTILE,
        files=["src/auth/"],
        repo=str(repo.path),
        success_criteria=["Command passes: true"],
        target="main",
        policy={"scope_requests": "ask", **FEWER_RUNS},
        submit=True,
        **members,
    )
    operator.start(SWARM, _WORKER)
    claim = {"bead_id": task, "name": _WORKER, "commit": repo.commit(HOSTILE, files)}
    if members:
        operator.bus("swarm_complete", SWARM, **claim, summary=HOSTILE, wait_ms=15_000)
        return
    with pytest.raises(AssertionError, match="contract_violations"):
        operator.bus("swarm_complete", SWARM, **claim, summary=HOSTILE, wait_ms=15_000)
    operator.bus("task_failed", SWARM, bead_id=task, name=_WORKER, epoch=1, reason=HOSTILE[:2000])


def _ask(operator: Operator) -> None:
    operator.start(SWARM, _WORKER)
    operator.bus("heartbeat", SWARM, name=_WORKER, context_usage=0.9, current_step=HOSTILE[:500])
    operator.bus("report_usage", SWARM, bead_id=ASKING, name=_WORKER, epoch=1, dollars=2)
    operator.ask(SWARM, _WORKER, f"{HOSTILE}\n{LONG[:3000]}")


def _write_log(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)  # a worker may set this module up twice
    record = {"settings": {"kind": "command"}, "started_at": "2026-01-05T10:00:00Z"}
    (folder / "attempt.json").write_text(json.dumps(record))
    (folder / "output.log").write_text(f"{HOSTILE}\n{LONG}\n")
    (folder / "errors.log").write_text(f"{HOSTILE}\n")


def _source() -> str:
    return f"# {HOSTILE!s}\nvalue = '{LONG}'\n".replace("\r", "")


_OF_SWARM: Final = f"/#/s/{SWARM}"
_MARKUP_SHOWN: Final = "<script>window.hacked"
# Every view, and what it shows when it has loaded.
ROUTES: Final = {
    "/#/inbox": _MARKUP_SHOWN,
    "/#/runs": _MARKUP_SHOWN,
    f"/#/runs/compare?a={SWARM}&b={SWARM}": "t-asking",
    "/#/repos": "no repos",
    f"{_OF_SWARM}/board": _MARKUP_SHOWN,
    f"{_OF_SWARM}/graph": _MARKUP_SHOWN,
    f"{_OF_SWARM}/workers": _WORKER,
    f"{_OF_SWARM}/events": _MARKUP_SHOWN,
    f"{_OF_SWARM}/replay": _MARKUP_SHOWN,
    f"{_OF_SWARM}/task/{ASKING}": "javascript:window.hacked=1",
    f"{_OF_SWARM}/task/{ASKING}/log": LONG[:1000],
    f"{_OF_SWARM}/task/{ASKING}/events": "question",
    f"{_OF_SWARM}/task/{REFUSED}": "not in files_owned",
    f"{_OF_SWARM}/task/{REFUSED}/diff": LONG[:1000],
    f"{_OF_SWARM}/task/{ACCEPTED}/claim/1": "It descends from the base",
    f"{_OF_SWARM}/task/{ACCEPTED}/contract": _MARKUP_SHOWN,
    f"{_OF_SWARM}/receipt/{ACCEPTED}": ACCEPTED,
    f"{_OF_SWARM}/event/1": _MARKUP_SHOWN,
    "/#/s/%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E/board": "could not be loaded",
    "/#/no%20such%20<script>view": "nothing at this address",
}
