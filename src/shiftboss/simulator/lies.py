"""What a lying or broken worker sends: old epochs, replays, other workers' tasks, work that is not
there. The servers must refuse it, or it must change nothing that was not the liar's to change."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from shiftboss.simulator.forge import BASE_COMMIT
from shiftboss.simulator.network import SentRequest

if TYPE_CHECKING:
    from shiftboss.simulator.chance import Chance
    from shiftboss.simulator.world import World

_REPORTS: Final = ("ack_task", "worker_done", "task_failed", "heartbeat")


def draw_lie(world: World) -> SentRequest:
    return world.chance.choice(_LIES)(world, world.chance)


def _replay(world: World, chance: Chance) -> SentRequest:
    """Exactly what somebody sent before."""
    sent = world.network.sent
    return chance.choice(sent) if sent else _report(world, chance)


def _changed_replay(world: World, chance: Chance) -> SentRequest:
    """Somebody else's request in one's own name, for another epoch, or with another key."""
    path, body, key = _replay(world, chance)
    body = dict(body)
    if "name" in body and chance.happens(0.5):
        body["name"] = chance.choice(world.worker_names)
    if "epoch" in body and chance.happens(0.5):
        body["epoch"] = max(1, body["epoch"] + chance.choice((-1, 1)))
    return SentRequest(path, body, chance.choice((None, key, f"lie-{chance.getrandbits(32)}")))


def _report(world: World, chance: Chance) -> SentRequest:
    """A report on any task, by anybody. Liars know what is going on: most of them are right about
    all but one thing."""
    operation = chance.choice(_REPORTS)
    held = world.draw_attempt()
    body: dict[str, Any] = {"swarm_id": world.swarm_id}
    if held is None or chance.happens(0.2):
        body |= {"name": chance.choice(world.worker_names), "epoch": chance.randint(1, 4)}
        task_id = world.any_task_id()
    elif chance.happens(0.5):
        body |= {"name": chance.choice(world.worker_names), "epoch": held.epoch}
        task_id = held.task_id
    else:
        body |= {"name": held.worker, "epoch": max(1, held.epoch - 1)}
        task_id = held.task_id
    if operation != "heartbeat":
        body["bead_id"] = task_id
    if operation == "task_failed":
        body["reason"] = "a lie"
    return SentRequest(f"/bus/{operation}", body, None)


def _claim(world: World, chance: Chance) -> SentRequest:
    """Work that is not there: no commit, the base, a commit of another task, one that nobody
    made."""
    commits = list(world.forge.commits)
    held = world.draw_attempt() if chance.happens(0.8) else None
    body: dict[str, Any] = {
        "swarm_id": world.swarm_id,
        "bead_id": world.any_task_id() if held is None else held.task_id,
        "commit": chance.choice((None, BASE_COMMIT, "c" * 40, *commits[-3:])),
        "name": chance.choice((None, *world.worker_names)) if held is None else held.worker,
        "wait_ms": 0,
    }
    return SentRequest("/bus/swarm_complete", _given(body), None)


def _message(world: World, chance: Chance) -> SentRequest:
    kind = chance.choice(("progress", "blocked", "context_threshold"))
    payload: dict[str, Any] = {"question": "may I?", "epoch": chance.randint(1, 4)}
    if kind == "progress":
        payload["state"] = chance.choice(("executing", "verifying", "self_review", "complete"))
    message = {
        "type": kind,
        "worker_id": chance.choice(world.worker_names),
        "timestamp": "2027-01-15T08:00:00Z",
        "payload": payload,
    }
    return SentRequest("/bus/send_message", {"swarm_id": world.swarm_id, "message": message}, None)


def _packet_report(world: World, chance: Chance) -> SentRequest:
    """Progress of long ago, as if it was new."""
    if not world.packets:
        return _report(world, chance)
    done = chance.randint(0, 2)
    body = {
        "packet_id": chance.choice(world.packets).packet_id,
        "task_id": f"s{done}",
        "task_name": "a lie",
        "status": "completed",
        "tasks_completed": done,
        "tasks_total": 3,
    }
    swarm_id = world.packets[0].swarm_id
    return SentRequest(f"/swarm/{swarm_id}/progress", body, f"lie-{chance.getrandbits(32)}")


def _given(body: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if value is not None}


_LIES: Final[tuple[Callable[[World, Chance], SentRequest], ...]] = (
    _replay,
    _changed_replay,
    _report,
    _report,
    _claim,
    _claim,
    _message,
    _packet_report,
)
