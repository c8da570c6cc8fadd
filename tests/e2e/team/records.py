"""What the servers have recorded, compared with what the agents have done."""

from __future__ import annotations

import asyncio
import json
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from shiftboss.evidence.receipt_verification import read_receipt, verify_receipt
from shiftboss.protocol.claims.receipts import ReceiptBodyV3
from tests.commands import shiftboss
from tests.e2e.team.callers import Caller, StoredEvent
from tests.e2e.team.team import OPERATOR_TOKEN, SWARMS, Team
from tests.e2e.team.team_server import TeamServer
from tests.postgres import Postgres


async def check_events(team: Team, swarm: str) -> None:
    """Every task was done once, by who held it, and everything was caused by who may do it."""
    events = await team.people["otto"].events(swarm)
    assert [event.event_id for event in events] == list(range(1, len(events) + 1))
    of_task: dict[str, list[StoredEvent]] = defaultdict(list)
    for event in events:
        if event.task is None:
            assert (event.kind, event.actor) in _of_swarm(team, swarm), event
        else:
            of_task[event.task].append(event)
    assert of_task.keys() == {task for task in team.board.finished if task.startswith(swarm)}
    for task, its_events in of_task.items():
        _check_task(team, swarm, task, its_events)


def _of_swarm(team: Team, swarm: str) -> set[tuple[str, str]]:
    joined = {("bus_worker_joined", name) for name in team.agents_of(swarm)}
    return {("swarm_created", "otto"), *joined}


def _check_task(team: Team, swarm: str, task: str, events: list[StoredEvent]) -> None:
    ((holder, epoch),) = team.board.held[task]
    ((finisher, receipt),) = team.board.finished[task]
    assert finisher == holder
    is_verified = task.endswith("-contract")
    assert (receipt is not None) == is_verified
    agents = team.agents_of(swarm)
    may_cause: dict[str, set[str]] = {
        "task_added": {"sam"},
        "handoff_spawned": {"sam"},
        "task_queued": {"otto"},
        # A task that waits is given to the worker that becomes free; one that was offered to a
        # worker that does not poll, to one that does.
        "task_assigned": {"otto", "server", *agents},
        "attempt_ended": agents,
        "task_started": {holder},
        "question_asked": {holder},
        "question_answered": {"otto"},
        "answer_delivered": {holder},
        "task_progress": {holder},
        "claim_made": {holder},
        "claim_accepted": {"server"},
        "task_done": {"server"} if is_verified else {holder},
    }
    for event in events:
        assert event.actor in may_cause.get(event.kind, ()), event
    kinds = [event.kind for event in events]
    offers = kinds.count("task_assigned")
    assert kinds.count("attempt_ended") == offers - 1
    once = [kind for kind in kinds if kind not in ("task_assigned", "attempt_ended")]
    assert len(once) == len(set(once)), kinds
    assert (kinds[0], kinds[-1], epoch) == ("task_added", "task_done", offers)


def check_refusals(team: Team) -> None:
    """Everybody has tried everything that they may not do, the agents together."""
    liars = [*team.liars.values(), *team.agents]
    assert [success for liar in liars for success in liar.successes] == []
    for liar in team.liars.values():
        assert liar.tried == liar.known
    known = set[str]().union(*(agent.known for agent in team.agents))
    assert known == set[str]().union(*(agent.tried for agent in team.agents))


async def check_deployment(team: Team, version: str) -> None:
    shown = await team.people["olivia"].operate("show_deployment")
    living = [row for row in shown["servers"] if row["state"] == "living"]
    assert {row["address"]: row["version"] for row in living} == dict.fromkeys(
        team.addresses, version
    )
    assert shown["ready"], shown["reasons"]
    differing = [row for row in shown["differences"] if row["severity"] != "information"]
    assert differing == [], shown["servers"]


async def check_receipts(team: Team) -> None:
    """Each server shows every receipt with the key that verifies it: one of the first server, the
    retired one of the second, or the one that it has instead."""
    rita = team.people["rita"].token
    keys: set[str] = set()
    for url in team.addresses:
        reader = Caller("rita", rita, [url])
        for task, [(holder, receipt_id)] in team.board.finished.items():
            if receipt_id is None or not task.startswith("shop"):
                continue
            shown = await reader.bus("show_receipt", bead_id=task)
            signed = read_receipt(json.dumps(shown["signed_receipt"]).encode())
            verify_receipt(signed, shown["public_key"])
            keys.add(signed.key_id)
            assert isinstance(signed.receipt, ReceiptBodyV3)
            assert (signed.receipt.receipt_id, signed.receipt.actor) == (receipt_id, holder)
    assert len(keys) == 3


def files_with_secrets(team: Team, backup: Path) -> Iterator[str]:
    """The state folders are left out: they have the private keys, for the server alone."""
    secrets = [secret.encode() for secret in team.secrets]
    secrets += [line for server in team.servers for line in _private_key(server.folder)]
    for name, content in _written(team, backup):
        yield from (name for secret in secrets if secret in content)


def _private_key(folder: Path) -> list[bytes]:
    (key,) = folder.glob("state/receipt-key.pem")
    return [line for line in key.read_bytes().splitlines() if not line.startswith(b"-----")]


def _written(team: Team, backup: Path) -> Iterator[tuple[str, bytes]]:
    for server in team.servers:
        for log in server.logs:
            yield str(log), log.read_bytes()
    with zipfile.ZipFile(backup) as archive:
        for name in archive.namelist():
            yield f"{backup}: {name}", archive.read(name)


async def check_restored(team: Team, backup: Path, postgres: Postgres) -> None:
    """The backup, in another database, has what was done before it, and passes every check."""
    with postgres.database() as database:
        await _succeeds("restore", str(backup), "--db", database)
        await _succeeds("fsck", "--db", database)
        server = TeamServer(database, team.folder / "restored", OPERATOR_TOKEN)
        try:
            await asyncio.to_thread(server.start)
            otto = Caller("otto", team.people["otto"].token, [server.url])
            for swarm in SWARMS:
                restored, all_events = (
                    await otto.events(swarm),
                    await team.people["otto"].events(swarm),
                )
                assert restored == all_events[: len(restored)]
                done = {event.task for event in restored if event.kind == "task_done"}
                assert done >= {task for task in team.done_before_backup if task.startswith(swarm)}
        finally:
            server.close()


async def _succeeds(*arguments: str) -> None:
    done = await asyncio.to_thread(shiftboss, *arguments)
    assert done.code == 0, (arguments, done)
