"""File ownership: overlapping tasks never run in parallel, on both stores."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import psycopg
import pytest

from shiftboss.errors import InvalidRequest, OwnershipOverlap
from shiftboss.protocol.bus import TaskRequest
from shiftboss.protocol.handoff_requests import OwnershipRequest
from shiftboss.protocol.messages import MessageType
from shiftboss.protocol.packets import CompleteRequest, ErrorRequest, RegisterRequest
from shiftboss.protocol.runs import ReleaseFilesRequest, ReportRunRequest
from shiftboss.rules.handoffs.handoffs import Reservation
from shiftboss.store.port import Transaction
from tests.conformance.bus.bus_fixtures import StillClock
from tests.conformance.handoffs.handoff_fixtures import HandoffFixture, accepted, open_handoffs
from tests.repos import Repo
from tests.verifying import LocalEvidence
from tests.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("HO-07")]


def only(found: object) -> dict[str, str]:
    """The only item of a list."""
    assert isinstance(found, list)
    (one,) = found
    return dict(one)


async def overlap(handoffs: HandoffFixture, task: str, *files: str) -> OwnershipOverlap:
    with pytest.raises(OwnershipOverlap) as refused:
        await handoffs.spawn(task, *files)
    return refused.value


@pytest.mark.parametrize(
    ("mine", "theirs", "example"),
    [
        ("src/a.py", "src/a.py", "src/a.py"),
        ("src/**/*.py", "src/*/test_?.py", "src/x/test_x.py"),
        ("src/", "src/deep/er.py", "src/deep/er.py"),
        ("SRC/A.py", "src/a.py", "src/a.py"),
    ],
)
async def test_an_overlap_names_the_holders_and_their_files(
    handoffs: HandoffFixture, mine: str, theirs: str, example: str
) -> None:
    await handoffs.spawn("holder", "other.py", mine)
    refused = await overlap(handoffs, "t", "free.py", theirs)
    held = only(refused.facts["holders"])
    assert (held["bead_id"], held["owned"], held["wanted"]) == ("holder", mine, theirs)
    assert held["example"] == example
    assert f"holder owns {mine}" in refused.detail
    assert refused.field == "files"
    assert await handoffs.owners() == {"holder"}


async def test_patterns_that_take_too_long_to_compare_are_refused(
    handoffs: HandoffFixture,
) -> None:
    """All other writes wait for the comparison."""
    expensive = "g/{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}" + "*xyxyxyxyxyxyxyxyxyxy" * 10
    with pytest.raises(InvalidRequest) as invalid:
        await handoffs.spawn("t", "free.py", expensive + "*x" * 7)
    assert invalid.value.field == "files.1"
    with pytest.raises(InvalidRequest) as too_many:
        await handoffs.spawn("t", *(f"{name}/{'*a*b*c*d*e*f*g*h' * 2}" for name in range(251)))
    assert too_many.value.field == "files"
    await handoffs.spawn("holder", expensive + "q")
    refused = await overlap(handoffs, "t", expensive + "*q?")
    assert "too many wildcards" in refused.detail
    assert refused.field == "files"
    assert await handoffs.owners() == {"holder"}
    await handoffs.spawn("other", "src/auth/**", "**/*.md")


async def test_tasks_that_do_not_overlap_can_run_in_parallel(handoffs: HandoffFixture) -> None:
    await handoffs.spawn("a", "src/*.py")
    await handoffs.spawn("b", "src/deep/*.py", "src/*.ts")
    await handoffs.spawn("a2", "docs/")
    assert await handoffs.owners() == {"a", "b", "a2"}


async def test_files_are_released_when_their_task_ends(handoffs: HandoffFixture) -> None:
    await handoffs.spawn("done", "a.py")
    await handoffs.claim("done")
    await overlap(handoffs, "t", "a.py")
    await handoffs.accept()
    assert await handoffs.owners() == set()

    await handoffs.spawn("cancelled", "a.py")
    await handoffs.cancel("cancelled")
    assert await handoffs.owners() == set()

    await handoffs.given_out("failed", "w", "a.py")
    await handoffs.failed("failed")
    assert await handoffs.owners() == set()
    await handoffs.spawn("t", "a.py")


async def test_files_stay_reserved_while_a_task_changes_workers(handoffs: HandoffFixture) -> None:
    await handoffs.given_out("t", "w", "a.py")
    await handoffs.pass_seconds(3600)  # the lease
    assert await handoffs.owners() == {"t"}
    await handoffs.retry("t")
    assert await handoffs.owners() == {"t"}


@pytest.mark.parametrize("how", ["submit", "retry", "assign"])
async def test_a_failed_task_must_reserve_its_files_again_to_continue(
    handoffs: HandoffFixture, how: str
) -> None:
    await handoffs.given_out("t", "w", "a.py")
    await handoffs.failed("t")
    await handoffs.spawn("other", "*.py")

    async def go_on() -> None:
        if how == "assign":
            members = {"task_id": "t", "spec_path": "s", "worktree_path": "/w"}
            await handoffs.say(MessageType.ASSIGN, "w", timeout_seconds=90, **members)
        else:
            await getattr(handoffs, how)("t")

    with pytest.raises(OwnershipOverlap):
        await go_on()
    assert await handoffs.status("t") == "failed"
    await handoffs.cancel("other")
    await go_on()
    assert await handoffs.owners() == {"t"}


async def test_a_new_contract_for_a_failed_task_owns_nothing_until_submitted(
    handoffs: HandoffFixture,
) -> None:
    await handoffs.given_out("t", "w", "a.py")
    await handoffs.failed("t")
    await handoffs.replace("t", "b.py")
    assert await handoffs.owners() == set()
    await handoffs.submit("t")
    await overlap(handoffs, "other", "b.py")
    await handoffs.spawn("another", "a.py")


async def test_a_new_version_releases_files_it_no_longer_owns(handoffs: HandoffFixture) -> None:
    await handoffs.spawn("t", "a.py")
    await handoffs.spawn("u", "u.py")
    with pytest.raises(OwnershipOverlap):
        await handoffs.replace("t", "u.py")
    assert (await handoffs.show_handoff("t")).version == 1
    await handoffs.replace("t", "b.py")
    await handoffs.spawn("v", "a.py")
    await overlap(handoffs, "x", "b.py")


async def test_overlaps_are_detected_between_swarms_on_the_same_repo(
    handoffs: HandoffFixture,
) -> None:
    there = await handoffs.in_swarm("swarm-2")
    await handoffs.spawn("t", "src/**")
    refused = await overlap(there, "t", "src/a.py")
    held = only(refused.facts["holders"])
    assert (held["swarm_id"], held["bead_id"]) == (handoffs.swarm_id, "t")
    await there.spawn("t", "docs/a.md")


async def test_a_packet_holds_its_files_until_it_ends(handoffs: HandoffFixture) -> None:
    there = await handoffs.in_swarm("packets")
    swarms = handoffs.coordinator.swarms
    register = RegisterRequest(packet_id=1, packet_name="p", tasks_total=1, worktree="/w")
    broken = ErrorRequest(
        packet_id=1, task_id="s", error_type="logic_error", message="boom", recoverable=False
    )
    await there.spawn("packet-1", "a.py")
    await swarms.register("packets", register)
    await swarms.error("packets", broken)
    await handoffs.spawn("t", "a.py")
    with pytest.raises(OwnershipOverlap):
        await swarms.register("packets", register)
    await handoffs.cancel("t")
    await swarms.register("packets", register)
    assert await handoffs.owners() == {"packet-1"}
    done = CompleteRequest(
        packet_id=1, final_commit="abcdef0", tests_passed=True, review_passed=True
    )
    completing = asyncio.create_task(swarms.complete("packets", done))
    job = await there.take(wait_ms=10_000)
    assert job is not None
    await there.report(job, accepted(job))
    assert (await completing).swarm_complete is True
    assert await handoffs.owners() == set()


async def test_only_one_of_fifty_concurrent_spawns_wins(handoffs: HandoffFixture) -> None:
    names = [f"t{number}" for number in range(50)]
    rooms = [handoffs, *[await handoffs.in_swarm(f"swarm-{number}") for number in range(4)]]
    spawns = [
        rooms[number % 5].spawn(name, f"src/{'*' * (number % 3)}a.py")
        for number, name in enumerate(names)
    ]
    results = await asyncio.gather(*spawns, return_exceptions=True)
    (won,) = [result for result in results if not isinstance(result, BaseException)]
    lost = [result for result in results if isinstance(result, BaseException)]
    assert all(isinstance(error, OwnershipOverlap) for error in lost), lost
    assert len(lost) == 49
    assert await handoffs.owners() == {won.bead_id}


async def test_only_one_of_two_servers_wins(
    postgres_url: str, evidence: LocalEvidence, repo: Repo
) -> None:
    clock = StillClock()
    async with (
        open_handoffs(postgres_url, evidence, repo, clock) as here,
        open_handoffs(postgres_url, evidence, repo, clock) as there,
    ):
        other = await there.in_swarm("swarm-2")
        for round_ in range(5):
            wishes = (here.spawn(f"a{round_}", "x.py"), other.spawn(f"b{round_}", "*.py"))
            results = await asyncio.gather(*wishes, return_exceptions=True)
            assert sum(isinstance(result, OwnershipOverlap) for result in results) == 1, results
            (owner,) = await here.owners()
            await (here if owner.startswith("a") else other).cancel(owner)


async def test_owners_can_be_queried_before_spawning(handoffs: HandoffFixture) -> None:
    await handoffs.spawn("t", "src/auth/**")

    async def in_the_way(*files: str) -> list[str]:
        request = OwnershipRequest(repo=f"{handoffs.repo.path}/", files=list(files))
        return [
            holder["bead_id"]
            for holder in (await handoffs.handoff_service.who_owns(request)).holders
        ]

    assert await in_the_way("src/**") == ["t"]
    assert await in_the_way("docs/**") == []


async def test_all_worktrees_of_a_repository_count_as_one(
    handoffs: HandoffFixture, tmp_path: Path
) -> None:
    await handoffs.spawn("holder", "src/a.py")
    handoffs.repo.git("worktree", "add", "-q", "--detach", str(tmp_path / "beside"))
    with pytest.raises(OwnershipOverlap):
        await handoffs.spawn("t", "src/a.py", repo=str(tmp_path / "beside"))


@pytest.mark.requirement("OWN-11")
async def test_a_task_that_nobody_works_on_for_hours_does_not_block_other_swarms(
    handoffs: HandoffFixture,
) -> None:
    """Its run was killed. It reserves its files again when it is handed out, or waits."""
    await handoffs.spawn("stale", "src/a.py", submit=True)
    other = await handoffs.in_swarm("other")
    with pytest.raises(OwnershipOverlap) as refused:
        await other.spawn("new", "src/a.py")
    assert only(refused.value.facts["holders"])["status"] == "queued"
    assert f"stale of the swarm {handoffs.swarm_id} (queued) owns" in refused.value.detail
    command = f"`shiftboss task cancel stale --swarm {handoffs.swarm_id}`"
    assert refused.value.hint == f"free its files: {command}"
    run = ReportRunRequest(swarm_id=handoffs.swarm_id, plan_file="/my plans/plan.yaml")
    await handoffs.coordinator.runs.report_run(run)
    with pytest.raises(OwnershipOverlap) as refused:
        await other.spawn("new", "src/a.py")
    finish = "finish it: `shiftboss run '/my plans/plan.yaml'`"
    assert refused.value.hint == f"{finish}; or free its files: {command}"
    assert "(queued) owns src/a.py as well; nothing" in refused.value.detail
    handoffs.clock.now_ms += 4 * 3_600_000
    await other.spawn("new", "src/a.py", submit=True)
    assert await handoffs.owners() == {"new"}
    await handoffs.register("w")
    assert (await handoffs.look("w")).task is None
    assert await handoffs.status("stale") == "open", "it left the queue"
    with pytest.raises(OwnershipOverlap):
        await handoffs.submit("stale")
    await other.cancel("new")
    await handoffs.submit("stale")
    assert await handoffs.start("w", "stale") == 1
    assert await handoffs.owners() == {"stale"}


@pytest.mark.requirement("OWN-11")
async def test_the_run_of_a_task_that_is_worked_on_is_not_to_be_started_again(
    handoffs: HandoffFixture,
) -> None:
    """`shiftboss run` would be refused: the run is at work."""
    await handoffs.spawn("holder", "src/", submit=True)
    run = ReportRunRequest(swarm_id=handoffs.swarm_id, plan_file="/plan.yaml")
    await handoffs.coordinator.runs.report_run(run)
    await handoffs.register("w")
    await handoffs.start("w", "holder")
    with pytest.raises(OwnershipOverlap) as refused:
        await (await handoffs.in_swarm("other")).spawn("new", "src/a.py")
    task = f"holder --swarm {handoffs.swarm_id}"
    assert refused.value.hint == (
        f"see what it is doing: `shiftboss why {task}`; "
        f"or free its files: `shiftboss task cancel {task}`"
    )
    assert "(active) owns src/, which overlaps with src/a.py; nothing" in refused.value.detail


async def test_a_task_is_not_handed_out_while_a_server_with_another_clock_releases_its_files(
    postgres_url: str, evidence: LocalEvidence, repo: Repo
) -> None:
    """The other clock is ahead: there, the task has been idle for long enough."""
    async with (
        open_handoffs(postgres_url, evidence, repo) as here,
        open_handoffs(postgres_url, evidence, repo) as there,
    ):
        await here.spawn("stale", "src/a.py", submit=True)
        other = await there.in_swarm("other")
        await other.spawn("new", "src/b.py")
        here.clock.now_ms += 4 * 3_600_000 - 1000
        started, may_commit = threading.Event(), threading.Event()

        def take_files(tx: Transaction) -> None:
            handoff = tx.handoff(other.swarm_id, "new")
            assert handoff is not None
            tx.hold_repo(handoff.repo_id)
            tx.release(here.swarm_id, "stale")
            taken = Reservation(other.swarm_id, "new", handoff.repo_id, ["src/a.py"])
            tx.reserve(taken, other.clock.now_ms)
            started.set()
            may_commit.wait(30)

        taking = asyncio.ensure_future(there.coordinator.store.write(take_files, other.swarm_id))
        await asyncio.to_thread(started.wait, 30)
        registering = asyncio.ensure_future(here.register("w"))

        def is_decided() -> bool:
            return registering.done() or waits_for_repo(postgres_url)

        await eventually(is_decided, "the task is handed out, or waits for the repo")
        may_commit.set()
        await asyncio.gather(taking, registering)
        assert (await here.look("w")).task is None
        assert await here.owners() == {"new"}


def waits_for_repo(postgres_url: str) -> bool:
    with psycopg.connect(postgres_url) as connection:
        waiting = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        return connection.execute(waiting).fetchone() is not None


async def test_work_in_progress_keeps_its_files_however_long_it_takes(
    handoffs: HandoffFixture,
) -> None:
    await handoffs.given_out("a", "w", "src/a.py")
    handoffs.clock.now_ms += 40 * 3_600_000
    other = await handoffs.in_swarm("other")
    with pytest.raises(OwnershipOverlap):
        await other.spawn("new", "src/a.py")


@pytest.mark.requirement("OWN-11")
async def test_a_run_that_ends_releases_tasks_that_its_workers_gave_back(
    handoffs: HandoffFixture,
) -> None:
    """A task that is given back is offered to the next worker, which is gone as well."""
    await handoffs.register("other")
    await handoffs.given_out("a", "other", "src/a.py")
    await handoffs.register("w")
    await handoffs.reset("other")
    offered = (await handoffs.show("a")).worker
    assert (await handoffs.status("a"), offered in ("w", "other")) == ("active", True)
    request = ReleaseFilesRequest(swarm_id=handoffs.swarm_id, workers=["w", "other", "unknown"])
    assert (await handoffs.coordinator.runs.release_files(request)).released == 1
    assert (await handoffs.status("a"), await handoffs.owners()) == ("queued", set())
    assert (await handoffs.given("w")).bead_id == "a", "the next run continues"


@pytest.mark.requirement("OWN-11")
async def test_a_task_that_a_run_gives_back_is_not_offered_to_its_workers(
    handoffs: HandoffFixture,
) -> None:
    await handoffs.given_out("a", "w", "src/a.py")
    await handoffs.register("idle")
    for workers in (["idle"], ["w"]):
        request = ReleaseFilesRequest(swarm_id=handoffs.swarm_id, workers=workers)
        await handoffs.coordinator.runs.release_files(request)
    assert (await handoffs.status("a"), await handoffs.owners()) == ("queued", set())
    assert (await handoffs.given("idle")).epoch == 2, "the next attempt, and none in between"


@pytest.mark.requirement("OWN-11")
async def test_a_run_that_ends_releases_the_files_of_idle_tasks(handoffs: HandoffFixture) -> None:
    await handoffs.given_out("active", "w", "src/a.py")
    await handoffs.spawn("queued", "src/b.py", submit=True)
    await handoffs.spawn("open", "src/c.py")
    request = ReleaseFilesRequest(swarm_id=handoffs.swarm_id)
    for released in (2, 0):
        assert (await handoffs.coordinator.runs.release_files(request)).released == released
    assert await handoffs.events("files_released") == [{"released": 2}], "who waits is woken"
    assert await handoffs.owners() == {"active"}
    other = await handoffs.in_swarm("other")
    await other.spawn("new", "src/b.py")
    await handoffs.failed("active")
    assert (await handoffs.look("w")).task is None, "another task has its files now"
    assert await handoffs.status("queued") == "open"
    await handoffs.submit("open")
    assert (await handoffs.given("w")).bead_id == "open"


@pytest.mark.requirement("OWN-11")
@pytest.mark.parametrize("withdrawn", [True, False])
async def test_a_task_that_lost_its_files_names_the_task_that_has_them(
    handoffs: HandoffFixture, withdrawn: bool
) -> None:
    """Whether it is withdrawn when a worker comes, or refused when it is submitted again."""
    await handoffs.spawn("t", "a.py", submit=withdrawn)
    await handoffs.coordinator.runs.release_files(ReleaseFilesRequest(swarm_id=handoffs.swarm_id))
    if not withdrawn:
        swarm_id = handoffs.swarm_id
        await handoffs.coordinator.store.write(lambda tx: tx.release(swarm_id, "t"), swarm_id)
    other = await handoffs.in_swarm("other")
    await other.spawn("holder", "a.py")
    if withdrawn:
        await handoffs.register("w")
        await handoffs.look("w")
    else:
        with pytest.raises(OwnershipOverlap):
            await handoffs.submit("t")
    assert (await handoffs.show("t")).status == "open"
    request = TaskRequest(swarm_id=handoffs.swarm_id, bead_id="t")
    (reason,) = (await handoffs.bus_service.why_task(request)).reasons
    assert (reason.kind, reason.command) == (
        "overlap",
        "shiftboss task cancel holder --swarm other",
    )
    assert (await handoffs.coordinator.swarms.status(handoffs.swarm_id)).status == "waiting"
    await handoffs.cancel("t")
    work = (await handoffs.coordinator.swarms.status(handoffs.swarm_id)).bus
    assert work.refused_starts == 0, "nothing is left behind"
