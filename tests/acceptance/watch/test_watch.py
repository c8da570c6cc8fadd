"""The terminal view shows what happens as it happens, and each decision can be made in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shiftboss.cli.common.command import ServerSession
from tests.acceptance.bus.bus import ask, submitted, task
from tests.acceptance.bus.bus_calls import InSwarm, say
from tests.acceptance.cli.handoff_commands import Handoffs
from tests.acceptance.watch.watching import watching, watching_session
from tests.repos import Repo
from tests.running import RunningServer
from tests.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("OWN-04", "OWN-12")]

HOSTILE = "a [bold red]title[/] \x1b[31m\x1b]0;owned\x07 \u202eevil"


@pytest.fixture
def handoffs(shared_server: RunningServer, bus: InSwarm, tmp_path: Path) -> Handoffs:
    return Handoffs(shared_server, bus, Repo(tmp_path / "repo"))


def started(bus: InSwarm, *task_ids: str) -> None:
    """Each task has a worker of its own, which has started it."""
    for task_id in task_ids:
        submitted(bus, task_id)
        worker = f"worker-of-{task_id}"
        ask(bus, "register_worker", name=worker)
        ask(bus, "poll_task", name=worker, timeout_ms=0)
        ask(bus, "ack_task", name=worker, bead_id=task_id)


async def test_tasks_move_through_the_board_while_it_is_watched(
    shared_server: RunningServer, bus: InSwarm
) -> None:
    submitted(bus, "t-1", "t-2")
    async with watching(shared_server, bus.swarm_id) as watcher:
        await watcher.shows("WAITING 2", "0/2 done", "nothing needs you")
        ask(bus, "register_worker", name="w")
        ask(bus, "poll_task", name="w", timeout_ms=0)
        ask(bus, "ack_task", name="w", bead_id="t-1")
        step = {"context_usage": 0.42, "current_step": "writes the parser"}
        ask(bus, "heartbeat", name="w", bead_id="t-1", **step)
        await watcher.shows("RUNNING 1", "1 agent at work", "42%", "writes the parser")
        ask(bus, "worker_done", name="w", bead_id="t-1")
        await watcher.shows("DONE 1", "1/2 done")
        await watcher.press("5")
        await watcher.shows("WORKER", "t-2")


async def test_a_question_is_answered_in_the_inbox(
    shared_server: RunningServer, bus: InSwarm
) -> None:
    started(bus, "t-1")
    async with watching(shared_server, bus.swarm_id) as watcher:
        await watcher.shows("RUNNING 1")
        say(bus, "blocked", "worker-of-t-1", payload={"question": "Which colour?"})
        await watcher.shows("NEEDS YOU 1", "! 1 needs you")
        await watcher.press("4")
        await watcher.shows("question", "Which colour?", "a answer")
        await watcher.press("a")
        await watcher.asks("Answer t-1", "enter sends it")
        await watcher.type("blue, please")
        await watcher.shows("blue, please")
        await watcher.press("enter")
        await watcher.shows("question 1 is answered", "Nothing waits for you.")
    (question,) = ask(bus, "list_questions", only_open=False)["questions"]
    assert question["answer"] == "blue, please"


async def test_a_review_is_read_and_approved(
    shared_server: RunningServer, handoffs: Handoffs
) -> None:
    commit = handoffs.in_review()
    async with watching(shared_server, handoffs.swarm) as watcher:
        await watcher.shows("NEEDS YOU 1", "y approve  n reject")
        await watcher.press("enter")
        await watcher.shows("── why", "── verdict", "criterion", "passed")
        for _ in range(2):
            await watcher.press("right")
        await watcher.press("y")
        await watcher.asks(f"Approve t-1 at {commit[:12]}")
        await watcher.press("y")
        await watcher.shows("t-1 is approved")
    assert task(handoffs.bus, "t-1")["review"]["state"] == "approved"


async def test_a_review_is_rejected_with_a_reason(
    shared_server: RunningServer, handoffs: Handoffs
) -> None:
    handoffs.in_review()
    async with watching(shared_server, handoffs.swarm) as watcher:
        await watcher.shows("y approve  n reject")
        await watcher.press("n")
        await watcher.asks("Reject t-1")
        await watcher.press("enter")  # a reason is needed
        await watcher.type("keep the name")
        await watcher.press("enter")
        await watcher.shows("t-1 is rejected", "FAILED 1")
    assert task(handoffs.bus, "t-1")["review"]["reason"] == "keep the name"


async def test_files_are_granted(shared_server: RunningServer, handoffs: Handoffs) -> None:
    ask(handoffs.bus, "register_worker", name="w")
    handoffs.spawn("t-1")
    ask(handoffs.bus, "submit_task", bead_id="t-1")
    ask(handoffs.bus, "ack_task", name="w", bead_id="t-1")
    ask(handoffs.bus, "request_scope", bead_id="t-1", paths=["Makefile"], reason="Needed")
    async with watching(shared_server, handoffs.swarm) as watcher:
        await watcher.shows("NEEDS YOU 1", "s scope")
        await watcher.press("s")
        await watcher.asks("Grant t-1 these files?", "Makefile", "n refuse")
        await watcher.press("y")
        await watcher.shows("scope request 1 of t-1 is granted")
    (request,) = ask(handoffs.bus, "list_scope_requests", only_open=False)["requests"]
    assert request["status"] == "granted"


async def test_a_task_is_retried_and_cancelled_and_the_swarm_is_paused(
    shared_server: RunningServer, bus: InSwarm
) -> None:
    started(bus, "t-1")
    ask(bus, "task_failed", name="worker-of-t-1", bead_id="t-1", reason="boom")
    ask(bus, "pause_swarm", reason="lunch")
    async with watching(shared_server, bus.swarm_id) as watcher:
        await watcher.shows("FAILED 1", "p resume", "r retry")
        await watcher.press("r")
        await watcher.shows("t-1 is queued again", "c cancel")
        await watcher.press("c")
        await watcher.asks("Cancel t-1?")
        await watcher.press("escape")
        await watcher.hides("Cancel t-1?")
        assert task(bus, "t-1")["status"] == "queued"
        await watcher.press("c")
        await watcher.asks("Cancel t-1?")
        await watcher.press("y")
        await watcher.asks("Why is t-1 cancelled?")
        await watcher.press("enter")
        await watcher.shows("t-1 is cancelled")
        await watcher.press("p")
        await watcher.shows("is resumed", "p pause")
    assert task(bus, "t-1")["status"] == "cancelled"


async def test_what_was_cancelled_is_not_expected(
    shared_server: RunningServer, bus: InSwarm
) -> None:
    submitted(bus, "t-1", "t-2")
    ask(bus, "cancel_task", bead_id="t-1", reason="not needed")
    async with watching(shared_server, bus.swarm_id) as watcher:
        await watcher.shows("0/1 done", "- t-1")


async def test_a_budget_that_is_used_up_is_raised(
    shared_server: RunningServer, bus: InSwarm
) -> None:
    started(bus, "t-1")
    ask(bus, "set_budget", bead_id="t-1", tokens=1000)
    used = {"input_tokens": 900, "output_tokens": 200}
    ask(bus, "report_usage", bead_id="t-1", name="worker-of-t-1", epoch=1, **used)
    async with watching(shared_server, bus.swarm_id) as watcher:
        await watcher.press("4")
        await watcher.shows("budget", "b budget")
        await watcher.press("b")
        await watcher.asks("The new limit in tokens")
        await watcher.press("ctrl+u")
        await watcher.type("5000")
        await watcher.press("enter")
        await watcher.shows("t-1 may use 5,000 tokens")
    (usage,) = ask(bus, "show_usage")["tasks"]
    assert usage["budget"]["tokens"] == 5000


async def test_what_the_server_refuses_is_shown_with_its_hint(
    shared_server: RunningServer, handoffs: Handoffs
) -> None:
    handoffs.in_review()
    session = ServerSession(shared_server.url, None, None, as_json=False)
    async with watching_session(session, handoffs.swarm) as watcher:
        await watcher.shows("y approve")
        await watcher.press("y")
        await watcher.asks("Approve t-1")
        await watcher.press("y")
        await watcher.shows("only the operator may do this", "SHIFTBOSS_OPERATOR_TOKEN")
    assert task(handoffs.bus, "t-1")["review"]["state"] == "open"


async def test_foreign_text_is_never_markup_or_control(
    shared_server: RunningServer, bus: InSwarm
) -> None:
    ask(bus, "add_task", bead_id="t-1", title=HOSTILE, description=HOSTILE)
    ask(bus, "submit_task", bead_id="t-1")
    ask(bus, "register_worker", name="w")
    ask(bus, "poll_task", name="w", timeout_ms=0)
    ask(bus, "ack_task", name="w", bead_id="t-1")
    ask(bus, "heartbeat", name="w", bead_id="t-1", current_step=HOSTILE)
    say(bus, "blocked", "w", payload={"question": f"{HOSTILE}\nsecond line"})
    shown = r"[bold red]title[/] \x1b[31m\x1b]0;owned\x07 \u202eevil"
    async with watching(shared_server, bus.swarm_id, columns=200) as watcher:
        await watcher.shows("NEEDS YOU 1", shown)
        for keys in (["enter"], ["4"], ["a"], ["escape"], ["5"], ["3"], ["1"]):
            await watcher.press(*keys)
            if keys in (["enter"], ["a"]):
                await watcher.shows(shown)
            assert all(line.isprintable() for line in watcher.lines), watcher.text


async def test_two_hundred_tasks_are_filtered_and_walked_through(
    shared_server: RunningServer, bus: InSwarm
) -> None:
    for number in range(200):
        ask(bus, "add_task", bead_id=f"task-{number:03}", title=f"Part {number}")
    async with watching(shared_server, bus.swarm_id, columns=80, rows=24) as watcher:
        await watcher.shows("WAITING 200", "0/200 done", "task-000")
        await watcher.press("G")
        await watcher.shows("task-199")
        await watcher.press("k")
        assert watcher.app.main.target is not None
        assert watcher.app.main.target.task_id == "task-198"
        ask(bus, "cancel_task", bead_id="task-005", reason="")
        board = watcher.app.model.board
        await eventually(lambda: board.counts()["done"] == 1, "the task is cancelled")
        assert watcher.app.main.target.task_id == "task-198"
        await watcher.press("slash")
        await watcher.type("task 042")
        await watcher.shows("WAITING 1", "task-042")
        await watcher.press("escape")
        await watcher.shows("task-198")
        await watcher.press("question_mark")
        await watcher.shows("approve accepted work")


async def test_the_command_that_helps_is_shown_below_a_long_title(
    shared_server: RunningServer, bus: InSwarm
) -> None:
    ask(bus, "add_task", bead_id="t-1", title="A title that goes on and on. " * 8, submit=True)
    async with watching(shared_server, bus.swarm_id, columns=80, rows=24) as watcher:
        await watcher.shows("A title that goes on", f"shiftboss worker list --swarm {bus.swarm_id}")


async def test_a_log_without_lines_says_so(shared_server: RunningServer, bus: InSwarm) -> None:
    started(bus, "t-1")
    runs = shared_server.state_folder / "runs" / bus.swarm_id
    for epoch in (1, 2):
        (runs / f"t-1.{epoch}").mkdir(parents=True)
        record = {"settings": {"kind": "command"}, "started_at": "2026-01-05T10:00:00Z"}
        (runs / f"t-1.{epoch}" / "attempt.json").write_text(json.dumps(record))
        (runs / f"t-1.{epoch}" / "output.log").touch()
    async with watching(shared_server, bus.swarm_id) as watcher:
        await watcher.shows("t-1")
        await watcher.press("3", "left")
        await watcher.shows("t-1 · attempt 1 of 2", "the agent has said nothing")
        (runs / "t-1.2" / "output.log").write_text("compiles\n")
        await watcher.press("right")
        await watcher.shows("t-1 · attempt 2 of 2", "compiles")
        await watcher.hides("the agent has said nothing")


async def test_a_log_that_is_elsewhere_names_the_command(
    shared_server: RunningServer, bus: InSwarm
) -> None:
    started(bus, "t-1")
    async with watching(shared_server, bus.swarm_id) as watcher:
        await watcher.shows("t-1")
        await watcher.press("3")
        await watcher.shows(f"shiftboss logs t-1 --swarm {bus.swarm_id}")


async def test_another_swarm_is_watched(shared_server: RunningServer, bus: InSwarm) -> None:
    other = InSwarm(shared_server.url)
    submitted(other, "elsewhere")
    submitted(bus, "here")
    async with watching(shared_server, bus.swarm_id) as watcher:
        await watcher.shows("here")
        await watcher.press("w")
        await watcher.asks("Watch which swarm?", other.swarm_id)
        await watcher.press("g")
        while watcher.app.screen._list.key != other.swarm_id:  # type: ignore[attr-defined]
            await watcher.press("j")
        await watcher.press("enter")
        await watcher.shows("elsewhere")
    other.close()
