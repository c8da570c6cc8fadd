"""Agents of a run cannot act as its operator, and a waiver of the operator is logged."""

from __future__ import annotations

import json
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import httpx2
import pytest

from tests.plan_runs import PlanProject, PlanRun, task
from tests.waiting import wait_until

TOKEN = "the-token-of-the-user-who-started-the-run"
AGENT = Path(__file__).with_name("operator_imposter_agent.py")

pytestmark = pytest.mark.requirement("OWN-01")


class ProjectWithOperator(PlanProject):
    """Its runs are started with an operator token in the environment."""

    forked = False  # its command line is inspected

    def environment(self) -> dict[str, str]:
        return super().environment() | {"SHIFTBOSS_OPERATOR_TOKEN": TOKEN}


@pytest.fixture
def project(tmp_path: Path) -> ProjectWithOperator:
    project = ProjectWithOperator(tmp_path)
    agents = {"script": {"kind": "command", "command": [sys.executable, str(AGENT)]}}
    project.plan(task("thief"), task("waived"), agents=agents, attempts=1)
    return project


def waive(project: ProjectWithOperator, run: PlanRun) -> None:
    address = project.marks / "address"
    wait_until(lambda: address.exists() and address.read_text(), "the agent has started", 60)
    (swarm,) = (project.folder / ".shiftboss" / "runs").iterdir()
    waiver = {"check": "scope", "reason": "needed", "granted_by": "ada"}
    answer = httpx2.post(
        f"{address.read_text()}/operator/waive",
        json={"swarm_id": swarm.name, "bead_id": "waived", **waiver},
        headers={"Shiftboss-Operator": TOKEN},
        timeout=60,
    )
    assert answer.status_code == 200, answer.text
    assert TOKEN.encode() not in Path(f"/proc/{run.pid}/cmdline").read_bytes()


def ended_tokens(project: ProjectWithOperator) -> set[str]:
    """The names of the agents' tokens, all of which are revoked."""
    with closing(sqlite3.connect(project.folder / ".shiftboss" / "shiftboss.db")) as database:
        rows = database.execute("SELECT name, role, task_id, revoked_at_ms FROM tokens").fetchall()
    assert {(role, revoked is not None) for _, role, _, revoked in rows} == {("worker", True)}
    return {name for name, *_ in rows}


def test_an_agent_cannot_waive_its_own_check_and_a_waiver_is_logged(
    project: ProjectWithOperator,
) -> None:
    run = project.start()
    waive(project, run)
    (project.marks / "go").touch()
    outcome = run.outcome()
    assert (outcome["landed"], outcome["failed"]) == (["waived"], ["thief"])

    attempt = json.loads((project.marks / "imposter").read_text())
    assert attempt.pop("with own token") == [200, 403, 403, 403, 403, 403]
    assert attempt == {"waives": [403], "spawned": 403, "found": [], "variables": []}
    assert ended_tokens(project) == {"agent:thief", "agent:waived"}
    assert not (project.repo / "foreign_thief.py").exists()
    assert (project.repo / "foreign_waived.py").exists()

    (log,) = (project.folder / ".shiftboss" / "runs").glob("*/run.log")
    logged = [line for line in log.read_text().splitlines() if "waived: scope" in line]
    assert len(logged) == 1
    assert logged[0].endswith("waived: waived: scope by ada")
    for file in (project.folder / ".shiftboss").rglob("*"):
        assert not file.is_file() or TOKEN.encode() not in file.read_bytes(), file
