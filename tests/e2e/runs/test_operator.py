"""Who is the operator of a run: not its agents; and a waiver of the one who is gets told."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import httpx2
import pytest

from tests.plan_runs import PlanRoom, PlanRun, task
from tests.waiting import wait_until

TOKEN = "the-token-of-whoever-has-started-the-run"
AGENT = Path(__file__).with_name("posing_agent.py")

pytestmark = pytest.mark.requirement("OWN-01")


class OperatedRoom(PlanRoom):
    """Its runs are started by somebody who has set the operator's token."""

    forked = False  # its command line is looked at

    def environment(self) -> dict[str, str]:
        return super().environment() | {"SHIFTBOSS_OPERATOR_TOKEN": TOKEN}


@pytest.fixture
def room(tmp_path: Path) -> OperatedRoom:
    room = OperatedRoom(tmp_path)
    agents = {"script": {"kind": "command", "command": [sys.executable, str(AGENT)]}}
    room.plan(task("thief"), task("waived"), agents=agents, attempts=1)
    return room


def waive(room: OperatedRoom, run: PlanRun) -> None:
    address = room.marks / "address"
    wait_until(lambda: address.exists() and address.read_text(), "the agent has begun", 60)
    (swarm,) = (room.folder / ".shiftboss" / "runs").iterdir()
    words = {"check": "scope", "reason": "needed", "granted_by": "ada"}
    answer = httpx2.post(
        f"{address.read_text()}/operator/waive",
        json={"swarm_id": swarm.name, "bead_id": "waived", **words},
        headers={"Shiftboss-Operator": TOKEN},
        timeout=60,
    )
    assert answer.status_code == 200, answer.text
    assert TOKEN.encode() not in Path(f"/proc/{run.pid}/cmdline").read_bytes()


def test_an_agent_cannot_waive_its_own_check_and_a_waiver_is_told(room: OperatedRoom) -> None:
    run = room.start()
    waive(room, run)
    (room.marks / "go").touch()
    outcome = run.outcome()
    assert (outcome["landed"], outcome["failed"]) == (["waived"], ["thief"])

    posed = json.loads((room.marks / "posed").read_text())
    assert posed == {"waives": [403], "spawned": 403, "found": [], "variables": []}
    assert not (room.repo / "foreign_thief.py").exists()
    assert (room.repo / "foreign_waived.py").exists()

    (log,) = (room.folder / ".shiftboss" / "runs").glob("*/run.log")
    told = [line for line in log.read_text().splitlines() if "waived: scope" in line]
    assert len(told) == 1
    assert told[0].endswith("waived: waived: scope by ada")
    for file in (room.folder / ".shiftboss").rglob("*"):
        assert not file.is_file() or TOKEN.encode() not in file.read_bytes(), file
