"""The steps of a simulation: what an operator, a fault or a liar does next.

A step is drawn from the number of its place alone, so that the first steps of a longer simulation
are those of a shorter one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from shiftboss.simulator.forge import REPOS
from shiftboss.simulator.lies import draw_lie
from shiftboss.simulator.network import SentRequest

if TYPE_CHECKING:
    from shiftboss.simulator.packets import PacketWorker
    from shiftboss.simulator.workers import SimulatedWorker
    from shiftboss.simulator.world import World


class Step(NamedTuple):
    """`weight` is how often it is drawn, of those whose `group` is."""

    name: str
    group: str
    weight: int
    run: Callable[[World], None]


def draw_step(world: World) -> Step:
    """A lie, a fault, or something that an operator does."""
    chance, profile = world.chance, world.profile
    group = "operator"
    if chance.happens(profile.lies):
        group = "lie"
    elif chance.happens(profile.faults):
        group = "fault"
    steps = [step for step in STEPS if step.group == group]
    return chance.choices(steps, [step.weight for step in steps])[0]


# -- the operator


def _ask(world: World, operation: str, prefix: str = "bus", **body: Any) -> None:
    """Send a request as the operator, who repeats it until it is answered."""
    body = {name: value for name, value in body.items() if value is not None}
    key = f"operator-{world.chance.getrandbits(48)}"
    sent = SentRequest(f"/{prefix}/{operation}", {"swarm_id": world.swarm_id, **body}, key)
    world.send_as_operator(sent)


def add_task(world: World) -> None:
    chance = world.chance
    name = world.new_task_id()
    others = [task_id for task_id in world.task_ids if task_id != name]
    depends_on = chance.sample(others, min(len(others), chance.choice((0, 0, 1, 2))))
    priority = chance.choice((0, 0, 0, 1, -1))
    _ask(world, "add_task", bead_id=name, title=name, depends_on=depends_on, priority=priority)
    if chance.happens(0.8):
        _ask(world, "submit_task", bead_id=name)


def spawn_task(world: World) -> None:
    """A task with a contract, on a repo of the policy or on the server's own."""
    chance = world.chance
    if not chance.happens(world.profile.contracts):
        add_task(world)
        return
    name = chance.choice((world.new_task_id(), world.any_task_id()))
    repo = chance.choice((None, *REPOS))
    world.repos.setdefault(name, repo)
    files = [chance.choice(("src/a.py", "src/b.py", "src/*.py", "docs/**", f"src/{name}.py"))]
    _ask(
        world,
        "spawn_subtask",
        "operator",
        bead_id=name,
        subtask_title=name,
        repo=world.repos[name],
        files=files,
        review=chance.choice(("none", "none", "required")),
        submit=chance.happens(0.8),
    )


def submit_task(world: World) -> None:
    _ask(world, "submit_task", bead_id=world.any_task_id())


def retry_task(world: World) -> None:
    _ask(world, "retry_task", bead_id=world.any_task_id())


def cancel_task(world: World) -> None:
    _ask(world, "cancel_task", bead_id=world.any_task_id(), reason="not needed")


def reset_worker(world: World) -> None:
    _ask(world, "reset_worker", worker_name=world.chance.choice(world.worker_names))


def answer_question(world: World) -> None:
    question_id = world.chance.randint(1, max(1, world.questions))
    _ask(world, "answer_question", question_id=question_id, answer="this")


def review_work(world: World) -> None:
    name = world.any_task_id()
    if world.chance.happens(0.7):
        _ask(world, "approve", "operator", bead_id=name, by="the operator")
    else:
        _ask(world, "reject", "operator", bead_id=name, by="the operator", reason="not good")


def release_repo(world: World) -> None:
    """The operator releases a lock, no matter which task has it. A task that runs keeps it."""
    repo = world.chance.choice(list(REPOS))
    _ask(world, "release_repo", "operator", repo=repo, reason="somebody else works on it")


def assign_task(world: World) -> None:
    """An order of an orchestrator, past the queue."""
    message = {
        "type": "assign",
        "worker_id": world.chance.choice(world.worker_names),
        "task_id": world.any_task_id(),
        "spec_path": "spec.md",
        "worktree_path": "/w",
        "timeout_seconds": 60,
        "timestamp": "2027-01-15T08:00:00Z",
    }
    _ask(world, "send_message", message=message)


def wait_long(world: World) -> None:
    world.pause_seconds = world.chance.choice((30.0, 61.0, 300.0, 1900.0))


# -- faults


def crash_server(world: World) -> None:
    world.crash_server(world.chance.choice(world.servers))


def crash_worker(world: World) -> None:
    workers: list[SimulatedWorker | PacketWorker] = [*world.workers, *world.packets]
    world.crash_worker(world.chance.choice(workers))


def cut_link(world: World) -> None:
    client = world.chance.choice([*world.worker_names, "operator"])
    server = world.chance.choice(world.servers)
    world.network.cut ^= {(client, server.name)}


def change_leader(world: World) -> None:
    world.leadership.change()


def jump_clock(world: World) -> None:
    """The wall clock of a server is set: by seconds, minutes or hours, in either direction."""
    if world.profile.clock_jumps:
        server = world.chance.choice(world.servers)
        seconds = world.chance.choice((-7200, -60, -2, 2, 60, 7200))
        server.clock_offset_ms += seconds * 1000


# -- lies


def lie(world: World) -> None:
    world.send_lie(draw_lie(world))


STEPS: Final = (
    Step("add_task", "operator", 12, add_task),
    Step("spawn_task", "operator", 12, spawn_task),
    Step("submit_task", "operator", 5, submit_task),
    Step("retry_task", "operator", 3, retry_task),
    Step("cancel_task", "operator", 2, cancel_task),
    Step("reset_worker", "operator", 2, reset_worker),
    Step("answer_question", "operator", 5, answer_question),
    Step("review_work", "operator", 5, review_work),
    Step("release_repo", "operator", 2, release_repo),
    Step("assign_task", "operator", 2, assign_task),
    Step("wait_long", "operator", 4, wait_long),
    Step("crash_server", "fault", 4, crash_server),
    Step("crash_worker", "fault", 4, crash_worker),
    Step("cut_link", "fault", 4, cut_link),
    Step("change_leader", "fault", 3, change_leader),
    Step("jump_clock", "fault", 3, jump_clock),
    Step("lie", "lie", 1, lie),
)
