"""What happens to a team while its agents work. Each incident lasts as long as its context."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

from tests.client import Client
from tests.commands import shiftboss
from tests.e2e.team.callers import Caller
from tests.e2e.team.records import check_restored
from tests.e2e.team.team import Team, write_private
from tests.e2e.team.team_server import TeamServer
from tests.postgres import Postgres
from tests.waiting import wait_until

SECONDS = 30.0


@asynccontextmanager
async def replacement(server: TeamServer, version: str) -> AsyncIterator[None]:
    """The other one does all the work meanwhile, and signs all receipts."""
    await asyncio.to_thread(server.stop)
    yield
    await asyncio.to_thread(server.start, version)


@asynccontextmanager
async def crash(server: TeamServer, version: str) -> AsyncIterator[None]:
    await asyncio.to_thread(server.close)
    yield
    await asyncio.to_thread(server.start, version)


@asynccontextmanager
async def rotation(team: Team, task: str) -> AsyncIterator[None]:
    """The agent that holds the task gets another token. Both are valid meanwhile."""
    agent = team.holder(task)
    name, old = agent.caller.name, agent.caller.token
    rotated = await team.people["olivia"].operate("rotate_token", name=name)
    new = str(rotated["token"])
    team.secrets.append(new)
    for token in (old, new):
        await answers(team, token, 200)
    write_private(agent.token_file, new)
    yield
    (replaced,) = rotated["replaced"]
    await team.people["olivia"].operate("revoke_token", token=replaced["token_id"])
    await answers(team, old, 401)
    await answers(team, new, 200)
    agent.caller = Caller(name, new, agent.caller.addresses)


async def answers(team: Team, token: str, status: int) -> None:
    """Wait until both servers answer it so: the one that was not told learns it in a moment."""
    for url in team.addresses:
        await asyncio.to_thread(_wait_for_status, url, token, status)


def _wait_for_status(url: str, token: str, status: int) -> None:
    with closing(Client(url, token)) as client:
        wait_until(
            lambda: client.post("/bus/get_status", {}).status_code == status,
            f"{url} answers the token with {status}",
            SECONDS,
        )


@asynccontextmanager
async def retired_key(team: Team, server: TeamServer) -> AsyncIterator[None]:
    """The key of one server, retired at the other."""
    olivia = team.people["olivia"]
    here = Caller("olivia", olivia.token, [server.url])
    shown = await here.operate("show_deployment")
    key_id = next(row["key_id"] for row in shown["servers"] if row["address"] == server.url)
    (other,) = {*team.addresses} - {server.url}
    there = Caller("olivia", olivia.token, [other])
    retired = await there.operate("retire_key", key_id=key_id)
    assert retired["key"]["retired_by"] == "olivia"
    yield
    keys = (await here.bus("list_receipts", swarm_id="shop"))["keys"]
    assert [key["key_id"] for key in keys if key.get("retired_at")] == [key_id]


@asynccontextmanager
async def new_policy(team: Team) -> AsyncIterator[None]:
    body = json.dumps({"repos": {"elsewhere": {"path": str(team.folder / "elsewhere")}}})
    source = str(team.folder / "shiftboss.yaml")
    applied = await team.people["olivia"].operate("apply_policy", body=body, source=source)
    assert applied["changed"], applied
    yield
    for url in team.addresses:
        rita = Caller("rita", team.people["rita"].token, [url])
        shown = await rita.bus("show_policy")
        assert shown["version"] == applied["version"], (url, shown)


@asynccontextmanager
async def backup(team: Team, file: Path) -> AsyncIterator[None]:
    team.done_before_backup = set(team.board.finished)
    making = asyncio.create_task(
        asyncio.to_thread(shiftboss, "backup", str(file), "--db", team.database)
    )
    yield
    done = await making
    assert done.code == 0, done.err


@asynccontextmanager
async def restored(team: Team, file: Path, postgres: Postgres) -> AsyncIterator[None]:
    """Into another database, beside the one that everybody works with."""
    checking = asyncio.create_task(check_restored(team, file, postgres))
    yield
    await checking
