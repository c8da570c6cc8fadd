"""Two servers, one PostgreSQL, people of several roles and eight agents: work goes on while a
server is upgraded or crashes, a token is rotated, a key retired, a policy applied and a backup
made and restored, and nothing is lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from tests.e2e.team.incidents import (
    backup,
    crash,
    new_policy,
    replacement,
    restored,
    retired_key,
    rotation,
)
from tests.e2e.team.records import (
    check_deployment,
    check_events,
    check_receipts,
    check_refusals,
    files_with_secrets,
)
from tests.e2e.team.team import SWARMS, Team
from tests.postgres import Postgres
from tests.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("OWN-05", "OWN-06")]

SECONDS = 60.0
# One server is upgraded; the other goes on for a while.
NEWER = "0.3.0"


@pytest.fixture
def team(postgres_url: str, tmp_path: Path) -> Iterator[Team]:
    team = Team(postgres_url, tmp_path)
    try:
        for server in team.servers:
            server.start()
        yield team
    finally:
        team.close()


async def wave(team: Team, number: int, incident: AbstractAsyncContextManager[None]) -> None:
    """Some agents hold tasks during the whole incident, the others take and finish tasks meanwhile,
    some of which are verified."""
    held = [f"{swarm}-{number}-{kind}" for swarm in SWARMS for kind in ("held", "b-held", "asks")]
    free = [f"{swarm}-{number}-{kind}" for swarm in SWARMS for kind in ("contract", "plain")]
    await add(team, held)
    await eventually(lambda: set(held) <= team.board.held.keys(), "all are held", SECONDS)
    async with incident:
        await add(team, free)
        await team.people_misbehave()
        await finished(team, free)
    await answer_all(team)
    for task in held:
        team.board.gates[task].set()
    await finished(team, held)


async def add(team: Team, tasks: list[str]) -> None:
    for task in tasks:
        await team.add_tasks(task.partition("-")[0], task)


async def finished(team: Team, tasks: list[str]) -> None:
    board = team.board
    await eventually(lambda: set(tasks) <= board.finished.keys(), f"done: {tasks}", SECONDS)


async def answer_all(team: Team) -> None:
    otto = team.people["otto"]
    for swarm in SWARMS:
        questions = (await otto.bus("list_questions", swarm_id=swarm, only_open=True))["questions"]
        for question in questions:
            await otto.bus(
                "answer_question",
                swarm_id=swarm,
                question_id=question["question_id"],
                answer="As otto says.",
            )


async def test_work_goes_on_whatever_happens(team: Team, postgres: Postgres) -> None:
    first, second = team.servers
    saved = team.folder / "monday.backup"
    await team.hire()
    async with team.at_work():
        await wave(team, 1, replacement(first, NEWER))
        await wave(team, 2, rotation(team, "shop-2-held"))
        await wave(team, 3, retired_key(team, second))
        await wave(team, 4, new_policy(team))
        await wave(team, 5, backup(team, saved))
        await wave(team, 6, restored(team, saved, postgres))
        await wave(team, 7, replacement(second, NEWER))
        await wave(team, 8, crash(first, NEWER))
    for swarm in SWARMS:
        await check_events(team, swarm)
    check_refusals(team)
    await check_receipts(team)
    await check_deployment(team, NEWER)
    team.close()
    assert list(files_with_secrets(team, saved)) == []
