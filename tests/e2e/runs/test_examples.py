"""The examples run as they are."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.bus.bus import ask, status_of, task
from tests.client import Client
from tests.commands import environment
from tests.fork_server import start_python
from tests.kill_with_parent import KillWithParent
from tests.running import RunningServer
from tests.waiting import wait_until

EXAMPLES = Path(__file__).parents[3] / "examples"
# Like `python -W error FILE`, in a process that is forked, and so are the commands that it runs.
RUN = """
import pathlib, runpy, sys, warnings
warnings.simplefilter("error")
sys.argv = sys.argv[1:]
sys.path[0] = str(pathlib.Path(sys.argv[0]).parent)
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def output_of(example: str, seconds: float) -> list[str]:
    """The lines of its output. It succeeds, without a warning."""
    arguments = ["-c", RUN, str(EXAMPLES / example / "run.py")]
    with start_python(arguments, environment=environment()) as process:
        try:
            out, err = process.communicate(timeout=seconds)
        finally:
            process.kill()
    assert (process.returncode, err) == (0, b""), out.decode()
    return out.decode().splitlines()


@pytest.mark.requirement("BUS-01", "BUS-03", "BUS-05", "BUS-06")
@pytest.mark.parametrize("example", ["bus_worker.py", "mcp_worker.py"])
def test_the_worker_example_completes_its_tasks(
    server: RunningServer, client: Client, example: str
) -> None:
    titles = {"task-1": "Implement login", "task-2": "Do the impossible", "task-3": "Write docs"}
    with subprocess.Popen(
        [sys.executable, "-W", "error", str(EXAMPLES / example), "z.ai1"],
        env=environment(server.url),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        killer = KillWithParent(process.pid)
        try:
            wait_until(lambda: status_of(client, "z.ai1") == "polling", "the worker polls", 60)
            for bead_id, title in titles.items():
                ask(client, "add_task", bead_id=bead_id, title=title)
                ask(client, "submit_task", bead_id=bead_id)
            ended = ["done", "failed", "done"]
            wait_until(
                lambda: [task(client, bead_id)["status"] for bead_id in titles] == ended,
                "all tasks have ended",
                60,
            )
            wait_until(lambda: status_of(client, "z.ai1") == "polling", "the worker polls again")
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
            killer.release()
    assert (process.returncode, err) == (130, "")
    assert out.splitlines() == [f"{bead_id}: {title}" for bead_id, title in titles.items()]
    assert task(client, "task-2")["last_error"] == "cannot do it: Do the impossible"


@pytest.mark.requirement("HO-04", "HO-05", "OWN-02")
def test_the_handoff_example_accepts_the_honest_worker_and_refuses_the_cheat() -> None:
    lines = output_of("handoff", 120)
    assert [line for line in lines if line.startswith("- ")] == [
        "- check_prices.py was changed and is in files_readonly",
        "- shop.py was changed and is not in files_owned",
    ]
    assert any(line.startswith("add-up is done: commit ") for line in lines)
    assert any(line.startswith("../receipt.json is genuine: ") for line in lines)
    assert any(line.startswith("../forged.json is not genuine: ") for line in lines)


@pytest.mark.timeout(360)
@pytest.mark.requirement("CC-01", "CC-03", "CC-05", "CC-06")
def test_the_multi_repo_example_proves_ten_repos_and_refuses_the_skipped_sync() -> None:
    lines = output_of("multi-repo", 300)
    spawned = [line.split()[1] for line in lines if line.startswith("        spawned ")]
    phases = [{"acdc-core", "sdk"}, {"alphavm", "deltavm", "adl"}]
    assert set(spawned[:2]) == phases[0]
    assert spawned.index("adnet") > max(map(spawned.index, phases[1] - {"adl"}))
    assert spawned.index("ac-dc") > spawned.index("adnet")
    refused = lines.index("- radicle-push was skipped, so it did not run (run #1)")
    assert (
        "git commit --allow-empty -m 'ci: trigger radicle sync' && git push" in lines[refused + 1]
    )
    proven = [line.split() for line in lines if " rcpt-" in line and " DONE with " not in line]
    assert sorted(row[0] for row in proven) == sorted(spawned)
    assert {row[4] for row in proven} == {"success"}
    assert [row[3] for row in proven if row[3] != "#1"] == ["#2"], "the refused worker pushed twice"
