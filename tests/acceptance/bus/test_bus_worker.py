"""BusWorker: the protocol's loop in Python, against a real server."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from shiftboss import BusProducer, BusWorker
from shiftboss.errors import InvalidRequest, NotHeld, StaleEpoch, Unauthorized, UnknownSwarm
from shiftboss.worker.bus_task import BusTask
from tests.acceptance.bus.bus import ask, status_of, submitted, task
from tests.client import Client
from tests.relay import Once, Relay, Said, relaying
from tests.running import RunningServer
from tests.waiting import eventually, wait_until

pytestmark = pytest.mark.anyio

NAME = "z.ai1"


@pytest.fixture
def server(shared_server: RunningServer, shared_client: Client) -> RunningServer:
    """Of all tests of this module; each begins without a swarm."""
    return shared_server


@pytest.fixture
def client(shared_client: Client) -> Client:
    return shared_client


class BrokenBuildError(Exception):
    pass


@asynccontextmanager
async def one_task(url: str, heartbeat_seconds: float | None = None) -> AsyncIterator[BusTask]:
    """The next task, held during the `async with`."""
    async with BusWorker(NAME, server=url, heartbeat_seconds=heartbeat_seconds) as worker:
        async for taken in worker.tasks():
            yield taken
            return


def kinds(client: Client) -> list[str]:
    return [event.kind for event in client.stored_events("default")]


def keys(relay: Relay, operation: str) -> list[str | None]:
    return [call.key for call in relay.passed if call.operation == operation]


@pytest.mark.requirement("BUS-03", "BUS-05", "BUS-06")
async def test_the_loop_registers_and_completes_tasks(
    server: RunningServer, client: Client
) -> None:
    submitted(client, "a", "b")
    taken: list[tuple[str, str, int]] = []
    async with BusWorker(NAME, server=server.url) as worker:
        async for one in worker.tasks():
            taken.append((one.bead_id, one.title, one.epoch))
            assert task(client, one.bead_id)["state"] == "executing"
            if one.bead_id == "a":
                await one.done()
            else:
                await one.failed("Build failed")
                break
    assert taken == [("a", "Title of a", 1), ("b", "Title of b", 1)]
    assert task(client, "a")["status"] == "done"
    assert (task(client, "b")["status"], task(client, "b")["last_error"]) == (
        "failed",
        "Build failed",
    )
    assert status_of(client, NAME) == "idle"


@pytest.mark.requirement("BUS-03")
async def test_a_task_submitted_later_wakes_the_loop(server: RunningServer, client: Client) -> None:
    async def work() -> str:
        async with one_task(server.url) as taken:
            await taken.done()
            return taken.bead_id

    working = asyncio.create_task(work())
    await eventually(lambda: status_of(client, NAME) == "polling", "the worker polls")
    submitted(client, "a")
    assert await working == "a"


@pytest.mark.requirement("BUS-08")
async def test_the_worker_waits_for_a_server_that_is_not_up_yet(
    server: RunningServer, client: Client
) -> None:
    submitted(client, "a")
    server.stop()
    tasks = BusWorker(NAME, server=server.url).tasks()
    first = asyncio.ensure_future(anext(tasks))
    await asyncio.to_thread(server.start)
    taken = await first
    await taken.done()
    assert task(client, "a")["status"] == "done"


@pytest.mark.requirement("BUS-05", "BUS-08")
@pytest.mark.parametrize("operation", ["ack_task", "poll_task"])
async def test_an_ack_whose_reply_was_lost_is_repeated_and_the_task_arrives_once(
    server: RunningServer, client: Client, operation: str
) -> None:
    submitted(client, "a")
    with relaying(server.url) as relay:
        relay.is_older = operation == "ack_task"
        relay.after = Once(operation)
        async with one_task(relay.url) as taken:
            assert (taken.bead_id, taken.epoch) == ("a", 1)
            await taken.done()
    first, second = keys(relay, operation)[-2:]
    assert first == second
    assert first is not None
    assert kinds(client).count("task_started") == 1


@pytest.mark.requirement("BUS-05", "BUS-08")
@pytest.mark.parametrize("operation", ["ack_task", "poll_task"])
async def test_a_task_is_not_lost_when_the_wait_is_cancelled_during_its_ack(
    server: RunningServer, client: Client, operation: str
) -> None:
    acknowledged, go_on = threading.Event(), threading.Event()

    def hold(call: Said) -> None:
        if call.operation == operation and task(client, "a")["state"] == "executing":
            acknowledged.set()
            go_on.wait()

    submitted(client, "a")
    with relaying(server.url) as relay:
        relay.is_older = operation == "ack_task"
        relay.after = hold
        tasks = BusWorker(NAME, server=relay.url).tasks()
        given_up = asyncio.ensure_future(anext(tasks))
        await eventually(acknowledged.is_set, "the server has the acknowledgement")
        given_up.cancel()
        with pytest.raises(asyncio.CancelledError):
            await given_up
        go_on.set()
        taken = await anext(tasks)
        assert (taken.bead_id, taken.epoch) == ("a", 1)
        await taken.done()
    assert task(client, "a")["status"] == "done"


@pytest.mark.requirement("BUS-06", "BUS-08")
@pytest.mark.parametrize(
    ("operation", "status"), [("worker_done", "done"), ("task_failed", "failed")]
)
async def test_a_result_whose_reply_was_lost_is_repeated_and_counts_once(
    server: RunningServer, client: Client, operation: str, status: str
) -> None:
    submitted(client, "a")
    with relaying(server.url) as relay:
        relay.after = Once(operation)
        async with one_task(relay.url) as taken:
            await (taken.done() if status == "done" else taken.failed("no"))
    first, second = keys(relay, operation)
    assert first == second
    assert first is not None
    assert task(client, "a")["status"] == status
    assert kinds(client).count(f"task_{status}") == 1


@pytest.mark.requirement("WP-05", "BUS-08")
async def test_messages_whose_reply_was_lost_are_repeated_and_count_once(
    server: RunningServer, client: Client
) -> None:
    submitted(client, "a")
    with relaying(server.url) as relay:
        async with one_task(relay.url) as taken:
            relay.after = Once("send_message")
            await taken.progress(commit="0123456789abcdef")
            relay.after = Once("send_message")
            asking = asyncio.create_task(taken.ask("Which database?"))
            await eventually(lambda: "question_asked" in kinds(client), "the question is there")
            ask(client, "answer_question", question_id=1, answer="the old one")
            assert await asking == "the old one"
            relay.after = Once("send_message")
            await taken.checkpoint(2, [], [])
    events = kinds(client)
    assert events.count("question_asked") == 1
    assert events.count("checkpoint_stored") == 1
    # The commit, and that the answer was heard.
    assert events.count("task_progress") == 2
    assert len(set(keys(relay, "send_message"))) == 4


@pytest.mark.requirement("BUS-06")
async def test_an_error_in_the_loop_fails_the_task_and_the_loop_continues(
    server: RunningServer, client: Client
) -> None:
    async def work() -> None:
        async with BusWorker(NAME, server=server.url) as worker:
            async for _ in worker.tasks():
                raise BrokenBuildError("no compiler")

    submitted(client, "a")
    with pytest.raises(BrokenBuildError, match="no compiler"):
        await work()
    found = task(client, "a")
    assert (found["status"], found["last_error"]) == ("failed", "BrokenBuildError: no compiler")


@pytest.mark.requirement("BUS-06")
async def test_an_error_that_ends_the_program_is_reported_even_without_async_with(
    server: RunningServer, client: Client
) -> None:
    async def program() -> None:
        async for _ in BusWorker(NAME, server=server.url).tasks():
            raise BrokenBuildError("no compiler")

    submitted(client, "a")
    with pytest.raises(BrokenBuildError):
        await asyncio.create_task(program())
    await eventually(lambda: task(client, "a")["status"] == "failed", "the task has failed")
    assert task(client, "a")["last_error"] == "BrokenBuildError: no compiler"


@pytest.mark.requirement("BUS-06")
async def test_a_task_left_without_a_result_fails(server: RunningServer, client: Client) -> None:
    submitted(client, "a", "b", "c")
    worker = BusWorker(NAME, server=server.url)
    async for one in worker.tasks():
        if one.bead_id == "b":
            break
    await eventually(lambda: task(client, "b")["status"] == "failed", "the broken loop is told")
    async with one_task(server.url) as taken:
        assert taken.bead_id == "c"
    for bead_id in ("a", "b", "c"):
        found = task(client, bead_id)
        assert (found["status"], found["last_error"]) == ("failed", "left without a result")


@pytest.mark.requirement("WP-06")
async def test_a_handed_over_task_does_not_fail(server: RunningServer, client: Client) -> None:
    submitted(client, "a")
    async with one_task(server.url) as taken:
        assert taken.resume_from is None
        await taken.checkpoint("step 3", ["new.py"], [], decisions=["none"])
    assert task(client, "a")["status"] == "queued"
    async with one_task(server.url) as taken:
        assert taken.epoch == 2
        assert taken.resume_from is not None
        assert taken.resume_from["current_step"] == "step 3"
        await taken.done()


@pytest.mark.requirement("BUS-09")
async def test_a_lost_task_is_noticed_and_its_late_result_is_refused(
    server: RunningServer, client: Client
) -> None:
    submitted(client, "a", "b")
    async with BusWorker(NAME, server=server.url, heartbeat_seconds=0.05) as worker:
        tasks = worker.tasks()
        taken = await anext(tasks)
        ask(client, "register_worker", name="other")
        ask(client, "ack_task", name="other", bead_id="b")
        ask(client, "task_failed", bead_id="b")
        ask(client, "retry_task", bead_id="a")
        ask(client, "ack_task", name="other", bead_id="a")
        await eventually(lambda: taken.is_lost, "the worker knows")
        with pytest.raises(StaleEpoch, match="Task a is at epoch 2, the report is from epoch 1"):
            await taken.done()
        ask(client, "retry_task", bead_id="b")
        following = await anext(tasks)
        assert (following.bead_id, following.epoch) == ("b", 2)
        await following.done()
    found = task(client, "a")
    assert (found["status"], found["worker"]) == ("active", "other")


@pytest.mark.requirement("BUS-06", "BUS-09")
async def test_a_refused_result_is_not_followed_by_another_one(
    server: RunningServer, client: Client
) -> None:
    submitted(client, "a")
    with relaying(server.url) as relay:
        async with BusWorker(NAME, server=relay.url) as worker:
            taken = await anext(worker.tasks())
            ask(client, "cancel_task", bead_id="a")
            with pytest.raises(NotHeld):
                await taken.done()
    assert [one for one in relay.operations() if one != "poll_task"] == [
        "register_worker",
        "worker_done",
    ]


@pytest.mark.requirement("BUS-09")
async def test_heartbeats_continue_while_the_work_blocks_the_event_loop(
    server: RunningServer, client: Client
) -> None:
    def lease_end() -> int:
        ends_at: int = task(client, "a")["lease_expires_at"]
        return ends_at

    submitted(client, "a")
    async with one_task(server.url, heartbeat_seconds=0.05) as taken:
        # Blocking on purpose.
        wait_until(lambda: lease_end() / 1000 < time.time() + 6, "the lease is a launcher's")
        before = lease_end()
        wait_until(lambda: lease_end() > before, "the lease was renewed")
        await taken.done()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.requirement("BUS-09")
async def test_heartbeats_continue_after_a_callback_that_failed(
    server: RunningServer, client: Client
) -> None:
    def fail() -> None:
        raise ValueError("of the caller")

    submitted(client, "a")
    async with BusWorker(NAME, server=server.url, heartbeat_seconds=0.05) as worker:
        tasks = worker.tasks()
        first = await anext(tasks)
        first.on_lost = fail
        ask(client, "reset_worker", worker_name=NAME)
        await eventually(lambda: first.is_lost, "a heartbeat has learned of it")
        second = await anext(tasks)
        before = task(client, "a")["lease_expires_at"]
        await eventually(
            lambda: (task(client, "a")["lease_expires_at"] or 0) > before, "it is renewed"
        )
        await second.done()


@pytest.mark.requirement("BUS-09")
async def test_the_lease_is_three_heartbeats_long(server: RunningServer, client: Client) -> None:
    submitted(client, "a")
    with relaying(server.url) as relay:
        async with one_task(relay.url) as taken:
            await taken.done()
        submitted(client, "b")
        async with one_task(relay.url, heartbeat_seconds=0.05) as taken:
            await eventually(
                lambda: [one for one in relay.passed if one.operation == "heartbeat"], "it beats"
            )
            await taken.done()
    first = next(one for one in relay.passed if one.operation == "poll_task")
    assert b'"lease_seconds":60' in first.body
    beat = next(one for one in relay.passed if one.operation == "heartbeat")
    # The shortest that there is.
    assert b'"lease_seconds":5' in beat.body
    assert b'"epoch":1' in beat.body


@pytest.mark.requirement("WP-07", "BUS-09")
async def test_a_worker_that_lost_its_task_does_not_wait_for_an_answer(
    server: RunningServer, client: Client
) -> None:
    submitted(client, "a")
    async with one_task(server.url) as taken:
        asking = asyncio.create_task(taken.ask("Which database?"))
        await eventually(lambda: "question_asked" in kinds(client), "the question is there")
        ask(client, "reset_worker", worker_name=NAME)
        with pytest.raises(NotHeld):
            await asking


@pytest.mark.requirement("WP-05")
async def test_a_heartbeat_reports_the_context_usage(server: RunningServer, client: Client) -> None:
    submitted(client, "a")
    async with one_task(server.url) as taken:
        for usage, is_requested in ((0.0, False), (0.69, False), (0.7, True)):
            answer = await taken.heartbeat(usage, "step 1")
            assert answer["checkpoint_requested"] is is_requested
        await taken.done()


@pytest.mark.requirement("BUS-02")
@pytest.mark.parametrize(
    ("name", "further"),
    [
        ("", {}),
        ("-z", {}),
        ("a b", {}),
        (NAME, {"swarm_id": "no/swarm"}),
        (NAME, {"heartbeat_seconds": 0}),
        (NAME, {"heartbeat_seconds": 1e9}),
        (NAME, {"server": "nowhere"}),
    ],
)
def test_invalid_arguments_are_refused_at_once(name: str, further: dict[str, object]) -> None:
    with pytest.raises(InvalidRequest):
        BusWorker(name, **further)  # type: ignore[arg-type]


@pytest.mark.requirement("BUS-02")
async def test_an_unknown_swarm_is_an_error(server: RunningServer, client: Client) -> None:
    with pytest.raises(UnknownSwarm):
        await anext(BusWorker(NAME, server=server.url, swarm_id="nope").tasks())
    client.create_swarm(swarm_id="nope")
    ask(client, "add_task", bead_id="a", title="T", swarm_id="nope")
    ask(client, "submit_task", bead_id="a", swarm_id="nope")
    async with BusWorker(NAME, server=server.url, swarm_id="nope") as worker:
        taken = await anext(worker.tasks())
        await taken.done()
    assert ask(client, "show_task", bead_id="a", swarm_id="nope")["status"] == "done"


@pytest.mark.requirement("SW-12")
async def test_a_server_with_a_token_requires_it_of_workers(sqlite_path: str) -> None:
    guarded = RunningServer(sqlite_path, token="secret").start()
    client = Client(guarded.url, "secret")
    try:
        submitted(client, "a")
        with pytest.raises(Unauthorized):
            await anext(BusWorker(NAME, server=guarded.url).tasks())
        async with BusWorker(NAME, server=guarded.url, token="secret") as worker:
            taken = await anext(worker.tasks())
            await taken.done()
        assert task(client, "a")["status"] == "done"
    finally:
        client.close()
        guarded.close()


@pytest.mark.requirement("BUS-03", "BUS-06")
async def test_a_busy_worker_sends_one_request_per_task(
    server: RunningServer, client: Client
) -> None:
    submitted(client, "a", "b", "c")
    with relaying(server.url) as relay:
        async with BusWorker(NAME, server=relay.url) as worker:
            tasks = worker.tasks()
            for name in ("a", "b", "c"):
                taken = await anext(tasks)
                assert (taken.bead_id, task(client, name)["state"]) == (name, "executing")
                await (taken.failed("no") if name == "b" else taken.done())
    assert relay.operations() == [
        "register_worker",
        "poll_task",
        "worker_done",
        "task_failed",
        "worker_done",
    ]
    assert [task(client, name)["status"] for name in "abc"] == ["done", "failed", "done"]


@pytest.mark.requirement("BUS-03", "BUS-06")
@pytest.mark.parametrize("managed", [True, False])
async def test_a_task_that_came_along_is_given_back_when_the_loop_is_left(
    server: RunningServer, client: Client, *, managed: bool
) -> None:
    submitted(client, "a", "b")
    worker = BusWorker(NAME, server=server.url)
    if managed:
        async with worker:
            await (await anext(worker.tasks())).done()
    else:
        tasks = worker.tasks()
        await (await anext(tasks)).done()
        del tasks
    await eventually(lambda: task(client, "b")["status"] == "queued", "b is queued again")
    assert (task(client, "a")["status"], task(client, "b")["failures"]) == ("done", 0)
    async with one_task(server.url) as taken:
        assert (taken.bead_id, taken.epoch) == ("b", 2)
        await taken.done()


@pytest.mark.requirement("BUS-03", "BUS-06")
@pytest.mark.parametrize("operation", ["worker_done", "task_failed"])
async def test_a_report_whose_answer_was_lost_still_brings_the_next_task(
    server: RunningServer, client: Client, operation: str
) -> None:
    submitted(client, "a", "b")
    with relaying(server.url) as relay:
        relay.after = Once(operation)
        async with BusWorker(NAME, server=relay.url) as worker:
            tasks = worker.tasks()
            first = await anext(tasks)
            await (first.done() if operation == "worker_done" else first.failed("no"))
            taken = await anext(tasks)
            assert (taken.bead_id, taken.epoch) == ("b", 1)
            await taken.done()
    assert kinds(client).count("task_started") == 2


@pytest.mark.requirement("BUS-03", "BUS-06")
async def test_an_older_server_gets_separate_calls(server: RunningServer, client: Client) -> None:
    with relaying(server.url) as relay:
        relay.is_older = True
        producer = BusProducer(server=relay.url)
        for name in ("a", "b"):
            assert (await producer.submit(name))["submitted"]["queued"]
        async with BusWorker(NAME, server=relay.url) as worker:
            tasks = worker.tasks()
            for name in ("a", "b"):
                taken = await anext(tasks)
                assert taken.bead_id == name
                await taken.done()
    assert relay.operations() == [
        *("add_task", "add_task", "submit_task", "add_task", "submit_task"),
        *("register_worker", "poll_task", "poll_task", "ack_task", "worker_done"),
        *("poll_task", "ack_task", "worker_done"),
    ]
    assert task(client, "b")["status"] == "done"


@pytest.mark.requirement("BUS-03", "BUS-06")
async def test_a_server_that_is_older_than_the_last_one_gets_separate_calls(
    server: RunningServer, client: Client
) -> None:
    """Two servers behind one address, while they are updated."""
    submitted(client, "a", "b")
    with relaying(server.url) as relay:
        async with BusWorker(NAME, server=relay.url) as worker:
            tasks = worker.tasks()
            taken = await anext(tasks)
            relay.is_older = True
            await taken.done()
            assert (await anext(tasks)).bead_id == "b"
    assert task(client, "a")["status"] == "done"


@pytest.mark.requirement("BUS-03", "BUS-06")
async def test_a_producer_submits_one_task_or_a_plan(server: RunningServer, client: Client) -> None:
    with relaying(server.url) as relay:
        async with BusProducer(server=relay.url) as producer:
            answer = await producer.submit("a", "Title", priority=2)
            assert (answer["title"], answer["submitted"]["position"]) == ("Title", 1)
            plan: list[str | dict[str, object]] = [
                "c",
                {"bead_id": "b", "title": "B", "depends_on": ["c"]},
            ]
            added = await producer.submit_many(plan)
            assert (added["added"], len(added["submitted"])) == (2, 2)
            with pytest.raises(InvalidRequest) as refused:
                await producer.submit_many(["d", {"bead_id": "e", "depends_on": ["e"]}])
            assert refused.value.field == "tasks.1.depends_on"
            with pytest.raises(InvalidRequest):
                await producer.submit("not an id")
    assert relay.operations() == ["add_task", "add_tasks", "add_tasks"]
    assert task(client, "b")["waits_for"] == 1
    assert kinds(client).count("task_added") == 3
