"""Agents that do not end, do not listen or destroy what they stand on: the run goes on."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psutil
import pytest

from tests.plan_runs import PlanRoom, task
from tests.waiting import wait_until

pytestmark = pytest.mark.requirement("OWN-01")


@pytest.fixture
def room(tmp_path: Path) -> PlanRoom:
    return PlanRoom(tmp_path)


def test_what_an_agent_destroys_or_does_not_finish_is_done_by_another(room: PlanRoom) -> None:
    """Two delete their work trees: one has committed all of its work, the other none, and says that
    it is done. The third one hangs until its time is over."""
    room.plan(
        task("vanisher", do="vanish"),
        task("razer", do="raze"),
        task("hanger", do="hang", timeout=3),
        workers=3,
    )
    outcome = room.run()
    assert sorted(outcome["landed"]) == ["hanger", "razer", "vanisher"], outcome
    assert room.work_trees == []
    held = room.git("log", "--glob=refs/shiftboss/*", "--format=%s").splitlines()
    assert "Begin" in held, "what the one that hung had committed is kept"


def test_those_who_never_listen_do_not_hold_up_the_others(room: PlanRoom) -> None:
    """One neither ends nor heeds the signal, one claims the same wrong work again and again."""
    room.plan(
        task("deaf", do="deaf", timeout=2),
        task("liar", do="stubborn"),
        task("good"),
        attempts=1,
    )
    outcome = room.run()
    assert (outcome["landed"], outcome["failed"]) == (["good"], ["deaf", "liar"])
    assert not psutil.pid_exists(room.waits("deaf.1"))
    assert room.landed() == ["First", "Add good"]
    assert room.work_trees == []


def test_a_server_that_dies_is_started_again(room: PlanRoom) -> None:
    room.plan(task("slow", do="hang"), task("last", "slow"))
    run = room.start()
    agent = room.waits("slow.1")
    (server,) = [one.pid for one in psutil.Process(run.pid).children() if "serve" in one.cmdline()]
    os.kill(server, signal.SIGKILL)
    os.kill(agent, signal.SIGKILL)
    assert sorted(run.outcome()["landed"]) == ["last", "slow"]


def test_a_lock_that_a_killed_git_has_left_is_no_obstacle(room: PlanRoom) -> None:
    """As an agent leaves it that is killed in the middle of a commit."""
    room.plan(task("slow", do="hang"))
    run = room.start()
    agent = room.waits("slow.1")
    (room.repo / ".git" / "refs" / "heads" / "shiftboss" / "slow.lock").touch()
    os.kill(agent, signal.SIGKILL)
    assert run.outcome()["landed"] == ["slow"]
    wait_until(lambda: room.work_trees == [], "its tree is gone", 30)
