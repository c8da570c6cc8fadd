"""A child ends with the process that started it."""

from __future__ import annotations

import subprocess
import sys

import psutil

from tests.kill_with_parent import KillWithParent
from tests.waiting import wait_until

_PARENT = """
import subprocess, sys, time
from tests.kill_with_parent import KillWithParent
child = subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL, start_new_session=True)
killer = KillWithParent(child.pid)
print(child.pid, flush=True)
time.sleep(600)
"""


def test_a_child_ends_when_its_parent_is_killed() -> None:
    parent = subprocess.Popen([sys.executable, "-c", _PARENT], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = psutil.Process(int(parent.stdout.readline()))
    parent.kill()
    parent.communicate()
    wait_until(lambda: not psutil.pid_exists(child.pid) or _is_dead(child), "the child has ended")


def _is_dead(process: psutil.Process) -> bool:
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def test_a_released_child_lives_on() -> None:
    child = subprocess.Popen(["sleep", "600"])
    killer = KillWithParent(child.pid)
    killer.release()
    assert child.poll() is None
    child.kill()
    child.wait()
