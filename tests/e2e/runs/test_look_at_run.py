"""Looking at a run from outside: logs, diff, attach and clean, while it lasts and afterwards."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from shiftboss.attempts.records import (
    AttemptRecord,
    attempts_in,
    attempts_of_run,
)
from shiftboss.attempts.run_process import process_of_run
from shiftboss.cli.commands.runs.background import RunFolder
from shiftboss.cli.commands.runs.clean import _Cleaning
from shiftboss.cli.common.command import ServerSession
from shiftboss.errors import Conflict
from shiftboss.orchestrator.leftovers.items import Leftover, WorkLocation
from shiftboss.orchestrator.leftovers.leftovers import (
    find_leftovers,
    hold_ended_run,
    list_runs,
    remove_leftovers,
    reservation,
)
from shiftboss.orchestrator.leftovers.refs import Tasks, find_holders, find_squashed
from shiftboss.orchestrator.run.progress import TaskProgress
from shiftboss.orchestrator.run.run_files import read_run_facts, write_run_facts
from shiftboss.orchestrator.run.run_lock import hold_run_lock
from shiftboss.system.processes.descendants import start_ticks
from shiftboss.system.state_folder import BadStateFolder
from tests.commands import Done, on_terminal, running, shiftboss
from tests.fork_server_process import NEW_CHILDREN
from tests.plan_runs import PlanProject, task
from tests.running import RunningServer
from tests.waiting import wait_until

# Nobody listens there. Somebody may listen at the default address.
NOWHERE = "http://127.0.0.1:1"

# A run in the background outlives the process that started it.
pytestmark = pytest.mark.usefixtures("new_children")


@pytest.fixture
def project(tmp_path: Path) -> PlanProject:
    return PlanProject(tmp_path)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    running_server = RunningServer(tmp_path / "server" / "shiftboss.db").start()
    yield running_server
    running_server.close()


@pytest.fixture
def operator(project: PlanProject, server: RunningServer) -> Iterator[Operator]:
    """No run goes on in the background when the test is over."""
    yield Operator(project, server.url)
    for folder in (project.folder / ".shiftboss" / "runs").glob("*"):
        process = process_of_run(folder)
        if process is not None:
            os.kill(process.pid, signal.SIGKILL)


class Operator:
    """A person in the folder of the project."""

    def __init__(self, project: PlanProject, url: str) -> None:
        self.project = project
        self.url = url

    def __call__(self, *arguments: str) -> Done:
        folder = self.project.folder
        own = {"HOME": str(folder / "home"), "PLAN_AGENT_MARKS": str(self.project.marks)}
        own[NEW_CHILDREN] = "1"  # `--detach` knows its child by its process id
        return shiftboss(*arguments, url=self.url, folder=folder, **own)

    def succeeds(self, *arguments: str) -> str:
        done = self(*arguments)
        assert done.code == 0, done
        return done.out

    def json(self, *arguments: str) -> Any:
        return json.loads(self.succeeds(*arguments, "--json"))


def run_folder(project: PlanProject) -> Path:
    (folder,) = (project.folder / ".shiftboss" / "runs").iterdir()
    return folder


def as_printed(operator: Operator, line: str) -> Done:
    """Run a command that was printed, as a person would copy it."""
    arguments = subprocess.check_output(
        ["bash", "-c", f'printf "%s\\0" {line.strip()}'], text=True
    ).split("\0")[:-1]
    assert arguments[0] == "shiftboss", line
    return operator(*arguments[1:])


@pytest.mark.requirement("OWN-11", "OWN-12")
def test_an_operator_looks_at_a_run_stops_it_and_cleans_up(
    project: PlanProject, operator: Operator
) -> None:
    project.plan(task("a", do="hang"), task("b"))
    started = operator.succeeds("run", "plan.yaml", "--detach", "--trees", str(project.trees))
    commands = dict(line.split(maxsplit=1) for line in started.splitlines()[1:])
    project.wait_for_agent("a.1")
    wait_until(lambda: "Add b" in project.landed(), "b landed", 60)
    folder = run_folder(project)
    facts = read_run_facts(folder)
    assert facts is not None
    assert as_printed(operator, commands["status"]).code == 0

    _look_at_the_work(operator, project)
    assert operator.json("clean")["leftovers"] == []
    refused = operator("attach", "a")
    assert refused.code == 1
    assert f"shiftboss logs a --swarm {folder.name} -f" in refused.err

    with running(
        "logs", "a", "-f", "--swarm", folder.name, SHIFTBOSS_DB=str(folder.parents[1] / "x.db")
    ) as following:
        assert following.line() == "starts a"
        again = operator("run", "plan.yaml", "--detach")
        assert (again.code, "running already" in again.err) == (1, True)
        stopped = as_printed(operator, commands["stop"])
        assert stopped.code == 0, stopped
        assert following.end().code == 0
    assert "to continue: shiftboss run plan.yaml" in stopped.out
    assert operator("run", "plan.yaml", "--attach").code == 130
    assert "starts a" in operator.succeeds("logs", "a")
    _clean_up_what_landed(operator)

    operator.succeeds("run", "plan.yaml", "--detach")
    watched = operator.succeeds("run", "plan.yaml", "--attach")
    assert "a: assigned to" in watched
    assert "\nlanded    a  " in watched
    _clean_up_all(operator, project)


def _look_at_the_work(operator: Operator, project: PlanProject) -> None:
    tree = next(project.trees.glob("*/a.1"))
    (tree / "new.txt").write_text("not\nadded\n")
    (tree / "shared.txt").write_text("changed\n")
    admin = Path(project.git("rev-parse", "--git-common-dir"))
    indexes = list((project.repo / admin / "worktrees").glob("a.1*/index"))
    before = [(index.read_bytes(), index.stat().st_mtime_ns) for index in indexes]

    shown = operator.succeeds("diff", "a")
    assert "+# begun" in shown
    assert "+++ b/new.txt\n" in shown
    assert "-first\n+changed\n" in shown
    assert "\x1b[" not in shown
    assert before == [(index.read_bytes(), index.stat().st_mtime_ns) for index in indexes]
    # Agents can write the settings of the repository, and their files.
    project.git("config", "core.pager", f"touch {project.folder}/executed; cat")
    (tree / "new.txt").write_text("not\n\x1b]0;owned\x07added\n")
    on_screen = on_terminal(
        "diff", "a", url=operator.url, columns=80, folder=project.folder, GIT_PAGER="cat"
    )
    assert "+\\x1b]0;owned\\x07added\x1b[m" in on_screen
    on_terminal("diff", "a", url=operator.url, columns=80, folder=project.folder, PAGER="cat")
    assert not (project.folder / "executed").exists()
    project.git("config", "--unset", "core.pager")
    work = operator.json("diff", "a")
    assert (work["kind"], work["tree"]) == ("work_tree", str(tree))
    assert {"path": "new.txt", "added": 2, "removed": 0} in work["files"]
    no_claim = operator("diff", "a", "--claim").err
    assert no_claim.startswith("a has no claim yet; show its work so far: shiftboss diff a --swarm")

    assert "test_b.py" in operator.succeeds("diff", "b", "--stat")
    landed = operator.json("diff", "b")
    assert (landed["kind"], len(landed["files"])) == ("landed", 2)


def _clean_up_what_landed(operator: Operator) -> None:
    """The landed task goes, the unfinished one stays."""
    listed = operator.json("clean")
    names = [leftover["name"] for leftover in listed["leftovers"]]
    assert [Path(name).name for name in names] == ["b.1"]
    assert [kept["bead_id"] for kept in listed["kept"]] == ["a"]
    assert Path(names[0]).is_dir()
    assert "shiftboss clean --apply" in operator.succeeds("clean")
    assert operator.json("clean", "--apply")["removed"] == listed["leftovers"]
    assert not Path(names[0]).exists()
    assert operator.json("clean")["leftovers"] == []
    include_unfinished = {each["kind"] for each in operator.json("clean", "--all")["leftovers"]}
    assert include_unfinished >= {"branch", "saved_work", "run"}


def _clean_up_all(operator: Operator, project: PlanProject) -> None:
    kinds = {leftover["kind"] for leftover in operator.json("clean")["leftovers"]}
    assert {"saved_work", "run"} <= kinds
    operator.succeeds("clean", "--apply")
    assert project.git("for-each-ref", "refs/shiftboss", "refs/heads/shiftboss") == ""
    assert list((project.folder / ".shiftboss" / "runs").iterdir()) == []
    assert operator.succeeds("clean") == "nothing to clean\n"
    (swarm,) = operator.json("clean", "--all")["leftovers"]
    assert swarm["kind"] == "swarm"
    token = str(project.folder / "server" / "operator-token")
    operator.succeeds("clean", "--all", "--apply", "--operator-token-file", token)
    assert operator.succeeds("clean", "--all") == "nothing to clean\n"
    assert f"task a in {swarm['swarm_id']}" in " ".join(
        operator.succeeds("receipt", "show", "a").split()
    )


def ended_attempt(project: PlanProject, **facts: str) -> AttemptRecord:
    """What is left of a run that was killed: an attempt, its branch and its work tree."""
    tree = project.trees / "s" / "a.1"
    base = project.git("rev-parse", "HEAD")
    project.git("worktree", "add", "--quiet", "-b", "shiftboss/a", str(tree))
    folder = project.folder / ".shiftboss" / "runs" / "s" / "a.1"
    folder.mkdir(parents=True)
    members = {
        "settings": {"kind": "claude"},
        "repo": str(project.repo),
        "tree": str(tree),
        "branch": "shiftboss/a",
        "base": base,
        **facts,
    }
    (folder / "attempt.json").write_text(json.dumps(members))
    (record,) = attempts_in(project.folder / ".shiftboss", "a")
    return record


@pytest.mark.requirement("OWN-11")
def test_clean_saves_uncommitted_work_and_needs_no_server(
    project: PlanProject, server: RunningServer
) -> None:
    record = ended_attempt(project)
    tree = Path(record.facts["tree"])
    (tree / "left.txt").write_text("not committed\n")
    listed = shiftboss("clean", url=NOWHERE, folder=project.folder)
    assert listed.code == 0, listed
    assert str(tree) in listed.out
    assert tree.exists()
    assert (
        "stays: a of s, not finished: a later run continues it, unless you cancel it "
        "(shiftboss task cancel a --swarm s)"
    ) in listed.out
    assert "s: its tasks count as unfinished, because" in listed.err
    removed = json.loads(
        shiftboss("clean", "--apply", "--json", url=NOWHERE, folder=project.folder).out
    )
    assert [each["name"] for each in removed["removed"]] == [str(tree)]
    assert not tree.exists()
    saved = project.git("show", "refs/shiftboss/salvage/a/1:left.txt")
    assert saved == "not committed"

    unknown = shiftboss("clean", "--all", "--apply", url=NOWHERE, folder=project.folder)
    assert (unknown.code, unknown.out) == (1, "nothing to remove\n")
    assert unknown.err.startswith("cannot tell which work is accepted in s (no server at ")
    assert project.git("for-each-ref", "refs/shiftboss", "refs/heads/shiftboss") != ""
    # A server that does not know the swarm has accepted nothing of it, but cannot tell whose the
    # refs are: the record of the attempt could have been written by an agent.
    include_unfinished = shiftboss(
        "clean", "--all", "--apply", "--json", url=server.url, folder=project.folder
    )
    answer = json.loads(include_unfinished.out)
    assert [each["kind"] for each in answer["removed"]] == ["run"]
    assert "no contract here says where they are" in answer["kept"][0]["why"]
    assert project.git("for-each-ref", "refs/shiftboss", "refs/heads/shiftboss") != ""


def contracts_of(project: PlanProject, branch: str = "shiftboss/a") -> dict[str, WorkLocation]:
    return {"a": WorkLocation(project.repo, branch, "main")}


@pytest.mark.requirement("OWN-11")
@pytest.mark.anyio
@pytest.mark.parametrize("recorded", ["", "people", "people/feature1", "shiftboss", "shiftboss/b"])
async def test_a_record_that_an_agent_has_written_names_no_branch_to_delete(
    project: PlanProject, recorded: str
) -> None:
    record = ended_attempt(project, branch=recorded)
    project.git("worktree", "remove", "--force", record.facts["tree"])
    for branch in ("people/feature1", "shiftboss/b", "shiftboss-a", "a"):
        project.git("branch", branch)
    tasks: Tasks = {"a": {"status": "done", "landed_commit": project.git("rev-parse", "HEAD")}}
    state = record.folder.parents[2]
    for include_unfinished in (False, True):
        found, _ = await find_leftovers(
            state, "s", tasks, contracts_of(project), include_unfinished=include_unfinished
        )
        branches = [each.name for each in found if each.kind == "branch"]
        assert branches == ["refs/heads/shiftboss/a"]


@pytest.mark.requirement("OWN-11")
@pytest.mark.anyio
@pytest.mark.parametrize("status", ["cancelled", "queued"])
async def test_a_branch_of_other_people_goes_only_if_it_has_landed(
    project: PlanProject, status: str
) -> None:
    record = ended_attempt(project)
    project.git("worktree", "remove", "--force", record.facts["tree"])
    base = project.git("rev-parse", "HEAD")
    project.git("branch", "people/feature1")
    contracts = contracts_of(project, "people/feature1")
    state = record.folder.parents[2]

    async def branches(task: dict[str, Any]) -> tuple[list[str], list[str]]:
        found, kept = await find_leftovers(
            state, "s", {"a": task}, contracts, include_unfinished=True
        )
        names = [each.name for each in found if each.kind == "branch"]
        return names, [each.why for each in kept]

    not_landed: dict[str, Any] = {"status": status, "landed_commit": None}
    stays = "its branch people/feature1 has work that has not landed, and its name is not one of"
    assert await branches(not_landed) == ([], [f"{stays} ours"])
    landed: dict[str, Any] = {"status": "done", "landed_commit": base}
    assert await branches(landed) == (["refs/heads/people/feature1"], [])
    contracts = contracts_of(project, project.git("branch", "--show-current"))
    assert (await branches(landed))[0] == []  # it is checked out


@pytest.mark.requirement("OWN-11")
@pytest.mark.anyio
async def test_saved_work_of_another_swarm_stays(project: PlanProject) -> None:
    """Both have a task of the same name, and the other one has its state in another folder."""
    record = ended_attempt(project)
    project.git("worktree", "remove", "--force", record.facts["tree"])
    for number, swarm_id in enumerate(("s", "other"), start=1):
        message = f"Uncommitted work in the work tree a.1 of {swarm_id}"
        commit = project.git("commit-tree", "-m", message, "HEAD^{tree}")
        project.git("update-ref", f"refs/shiftboss/salvage/a/{number}", commit)
    tasks: Tasks = {"a": {"status": "cancelled", "landed_commit": None}}
    found, _ = await find_leftovers(
        record.folder.parents[2], "s", tasks, contracts_of(project), include_unfinished=True
    )
    saved = [each.name for each in found if each.kind == "saved work"]
    assert saved == ["refs/shiftboss/salvage/a/1"]


@pytest.mark.requirement("OWN-11")
def test_nothing_is_cancelled_in_a_run_that_has_started_in_the_meantime(tmp_path: Path) -> None:
    session = ServerSession("http://127.0.0.1:9", None, None, as_json=False)
    left = Leftover("reservation", "s", "a.py", "not finished", bead_id="a")
    with hold_run_lock(tmp_path / "runs" / "s", "s", "run"):
        ((_, reason),) = _Cleaning(session, tmp_path, True).remove([left])
    assert reason == "another `shiftboss run` is already working on the swarm s"


@pytest.mark.requirement("OWN-11")
def test_links_in_the_folder_of_a_run_are_not_followed(tmp_path: Path) -> None:
    run = tmp_path / "runs" / "s"
    run.mkdir(parents=True)
    (tmp_path / "big").write_bytes(b"x" * 1_000_000)
    (run / "a.1").symlink_to(tmp_path)
    (tmp_path / "runs" / "t").symlink_to(tmp_path)
    assert list_runs(tmp_path) == {"s": False}
    assert attempts_of_run(tmp_path, "s") == []
    (run / "lock").symlink_to(tmp_path / "big")
    with pytest.raises(BadStateFolder, match="cannot be used"), hold_run_lock(run, "s", "clean"):
        pass
    assert (tmp_path / "big").stat().st_size == 1_000_000


LANDED = "0" * 40


@pytest.mark.requirement("OWN-11")
@pytest.mark.anyio
@pytest.mark.parametrize("is_live", [True, False])
async def test_refs_stay_while_another_swarm_works_on_a_task_of_the_same_name(
    project: PlanProject, is_live: bool
) -> None:
    record = ended_attempt(project)
    project.git("worktree", "remove", "--force", record.facts["tree"])
    project.git("update-ref", "refs/shiftboss/salvage/a/1", "HEAD")
    state = record.folder.parents[2]
    shutil.copytree(record.folder.parent, state / "runs" / "t")
    tasks: Tasks = {"a": {"status": "done", "landed_commit": project.git("rev-parse", "HEAD")}}
    contracts = contracts_of(project)
    unfinished: Tasks = {"a": {"status": "queued", "landed_commit": None}}

    async def kinds_in(swarm_id: str, *, include_unfinished: bool) -> list[str]:
        holders = [
            *await find_holders(state, "s", tasks, contracts, is_live=False),
            *await find_holders(state, "t", unfinished, contracts, is_live=is_live),
        ]
        assert [(each.swarm_id, each.outcome) for each in holders] == [("t", "unfinished")]
        own = {"s": tasks, "t": unfinished}[swarm_id]
        found, _ = await find_leftovers(
            state, swarm_id, own, contracts, include_unfinished=include_unfinished, holders=holders
        )
        return [each.kind for each in found]

    assert await kinds_in("s", include_unfinished=False) == ["run"]
    assert await kinds_in("s", include_unfinished=True) == ["run"]
    assert await kinds_in("t", include_unfinished=True) == ["branch", "saved work", "run"]
    unreadable = await find_holders(state, "t", None, {}, is_live=False)
    assert {each.outcome for each in unreadable} == {"accepted"}
    found, _ = await find_leftovers(
        state, "s", unfinished, contracts, include_unfinished=True, holders=sorted(unreadable)
    )
    assert [each.kind for each in found] == ["run"]
    found, _ = await find_leftovers(state, "s", tasks, contracts, include_unfinished=False)
    assert [each.kind for each in found] == ["branch", "saved work", "run"]


@pytest.mark.requirement("OWN-11")
@pytest.mark.anyio
async def test_a_branch_goes_only_if_all_of_it_has_landed(project: PlanProject) -> None:
    record = ended_attempt(project)
    base = project.git("rev-parse", "HEAD")
    tree = Path(record.facts["tree"])
    project.git("-C", str(tree), "commit", "--quiet", "--allow-empty", "-m", "After the landing")
    project.git("worktree", "remove", "--force", str(tree))
    state = record.folder.parents[2]

    async def branches(landed: str, *, include_unfinished: bool = False) -> list[str]:
        tasks = {"a": {"status": "done", "landed_commit": landed}}
        found, _ = await find_leftovers(
            state, "s", tasks, contracts_of(project), include_unfinished=include_unfinished
        )
        return [each.why for each in found if each.kind == "branch"]

    assert await branches(base) == []
    assert await branches(LANDED) == []  # the target was rewritten
    assert await branches(base, include_unfinished=True) == [
        "a has landed, but not all commits of this branch (--all)"
    ]
    assert await branches(project.git("rev-parse", "shiftboss/a")) == ["a has landed"]
    project.git("update-ref", "refs/shiftboss/squashed/s/a", "shiftboss/a")
    assert await branches(base) == ["a has landed"]


@pytest.mark.requirement("OWN-11")
@pytest.mark.anyio
async def test_squashed_work_is_found_without_its_run(project: PlanProject) -> None:
    commit = project.git("rev-parse", "HEAD")
    project.git("update-ref", "refs/shiftboss/squashed/x%3A1/a", commit)
    (left,) = await find_squashed([project.repo, project.folder / "nothing", project.repo])
    assert (left.kind, left.swarm_id, left.bead_id) == ("squashed work", "x:1", "a")
    state = project.folder / ".shiftboss"
    with hold_ended_run(state, "x:1"):
        ((_, failure),) = await remove_leftovers([left])
    assert failure is None
    assert project.git("for-each-ref", "refs/shiftboss") == ""
    assert not (state / "runs").exists()


@pytest.mark.requirement("OWN-12")
def test_only_a_run_is_watched_and_stopped(project: PlanProject) -> None:
    """`land` and `clean` hold the lock of the run as well."""
    project.plan(task("a"), swarm="s")
    folder = project.folder / ".shiftboss" / "runs" / "s"
    with hold_run_lock(folder, "s", "land"):
        assert "`shiftboss land` is working" in refused(project, "--detach")
        for option in ("--stop", "--attach"):
            assert "no run of the swarm s is running" in refused(project, option)
        is_working = pytest.raises(Conflict, match="`shiftboss land` is working on the swarm s")
        with is_working, hold_run_lock(folder, "s", "run"):
            pass


def refused(project: PlanProject, option: str) -> str:
    done = shiftboss("run", "plan.yaml", option, folder=project.folder)
    assert done.code == 1, done
    return done.err


# Stands for the process of a run: it holds the lock, and ends when its input is closed.
RUN = """
import sys
from pathlib import Path
from shiftboss.orchestrator.run.run_lock import hold_run_lock
with hold_run_lock(Path(sys.argv[1]), "s", "run"):
    print("locked", flush=True)
    sys.stdin.read()
    import os
    os._exit(0)
"""


@contextmanager
def process_with_lock(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    argv = [sys.executable, "-c", RUN, str(folder)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == b"locked\n"
        yield run


@pytest.mark.requirement("OWN-12")
@pytest.mark.parametrize("is_locked", [True, False], ids=["by-another", "by-nobody"])
def test_a_process_that_does_not_hold_the_lock_is_not_stopped(
    project: PlanProject, is_locked: bool
) -> None:
    """An agent can write any process into the file."""
    project.plan(task("a"), swarm="s")
    folder = project.folder / ".shiftboss" / "runs" / "s"
    folder.mkdir(parents=True)
    locked = hold_run_lock(folder, "s", "run") if is_locked else nullcontext()
    with locked, subprocess.Popen(["cat"], stdin=subprocess.PIPE) as other:
        named = {"pid": other.pid, "started": start_ticks(other.pid), "role": "run"}
        (folder / "lock").write_text(json.dumps(named))
        assert process_of_run(folder) is None
        assert "no run of the swarm s is running" in refused(project, "--stop")
        assert other.poll() is None
        other.communicate()
    assert other.returncode == 0


@pytest.mark.requirement("OWN-12")
def test_a_run_that_ends_while_it_is_stopped_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with process_with_lock(tmp_path) as run:

        def end_first(pid: int, number: int) -> None:
            monkeypatch.undo()
            run.communicate()
            os.kill(pid, number)

        monkeypatch.setattr(os, "kill", end_first)
        stopped = RunFolder(tmp_path, Path("plan.yaml"), []).stop()
    assert json.loads(stopped.document)["stopped"] is True


@pytest.mark.requirement("OWN-11")
@pytest.mark.anyio
async def test_accepted_work_that_has_not_landed_always_stays(project: PlanProject) -> None:
    record = ended_attempt(project)
    project.git("worktree", "remove", "--force", record.facts["tree"])
    tasks = {"a": {"status": "done", "landed_commit": None}}
    state = project.folder / ".shiftboss"
    write_run_facts(state / "runs" / "s", Path("plan.yaml"), "http://127.0.0.1:1")
    contracts = contracts_of(project)
    found, kept = await find_leftovers(state, "s", tasks, contracts, include_unfinished=True)
    assert found == []
    assert [each.command for each in kept] == ["shiftboss land plan.yaml a"]


@pytest.mark.requirement("OWN-11")
def test_reservations_of_unfinished_tasks_of_a_killed_run_are_left_over() -> None:
    holder = {"swarm_id": "s", "bead_id": "a", "owned": ["a.py", "b/"]}
    left = reservation("s", {"status": "queued"}, holder)
    assert left is not None
    assert (left.kind, left.name, left.bead_id) == ("reservation", "a.py, b/", "a")
    assert reservation("s", {"status": "done"}, holder) is None
    assert reservation("t", {"status": "queued"}, holder) is None


@pytest.mark.requirement("OWN-12")
def test_a_session_is_continued_in_a_work_tree_that_is_opened_again(project: PlanProject) -> None:
    record = ended_attempt(project)
    tree = Path(record.facts["tree"])
    project.git("worktree", "remove", "--force", str(tree))
    line = {"type": "system", "subtype": "init", "session_id": "s-1"}
    record.output.write_text(f"{json.dumps(line)}\n")
    printed = shiftboss("attach", "a", folder=project.folder)
    assert printed == (0, f"cd {tree} && claude --resume s-1\n", "")
    assert "shiftboss/a" in project.git("worktree", "list")

    command = ["sh", "-c", "touch executed"]
    facts = {**record.facts, "settings": {"kind": "claude", "command": command}}
    (record.folder / "attempt.json").write_text(json.dumps(facts))
    assert shiftboss("attach", "a", folder=project.folder) == printed
    for changed in (
        {"tree": "/etc"},
        {"tree": "s/a.1"},
        {"branch": "--upload-pack=x"},
        {"base": "--orphan"},
        {"repo": 7},
        {"settings": {"kind": "claude", "command": "sh"}},
        {"settings": {"kind": "gone"}},
    ):
        (record.folder / "attempt.json").write_text(json.dumps({**record.facts, **changed}))
        attached = shiftboss("attach", "a", folder=project.folder)
        assert (attached.code, attached.out) == (1, ""), changed
        assert "Traceback" not in attached.err
    (record.folder / "attempt.json").write_text(json.dumps(facts))

    record.output.write_text(f"{json.dumps({**line, 'session_id': '--mcp-config=x'})}\n")
    assert "names no session" in shiftboss("attach", "a", folder=project.folder).err
    record.output.write_text("")
    silent = shiftboss("attach", "a", folder=project.folder)
    assert "names no session" in silent.err
    facts = {**record.facts, "settings": {"kind": "codex"}}
    (record.folder / "attempt.json").write_text(json.dumps(facts))
    other = shiftboss("attach", "a", folder=project.folder)
    assert (other.code, "--ephemeral" in other.err) == (1, True)


@pytest.mark.requirement("OWN-12")
def test_attach_shows_the_table_of_a_run_on_a_terminal_until_it_ends(project: PlanProject) -> None:
    project.plan(task("a"), swarm="s")
    folder = project.folder / ".shiftboss" / "runs" / "s"
    folder.mkdir(parents=True)
    row = asdict(TaskProgress("a", "", stage="working", doing="writes a test " * 9))
    (folder / "progress.json").write_text(json.dumps({"rows": [row], "lines": ["a: assigned"]}))
    with process_with_lock(folder) as run:
        assert run.stdin is not None
        result = {"pid": run.pid, "exit_code": 0, "outcome": {"done": True, "landed": ["a"]}}
        (folder / "outcome.json").write_text(json.dumps(result))
        close = run.stdin.close
        shown = on_terminal(
            *("run", "plan.yaml", "--attach"),
            url=None,
            columns=50,
            folder=project.folder,
            on_output=lambda part: close() if b"a working" in part else None,
            NO_COLOR="1",
        )
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown).replace("\r", "\n").splitlines()
    assert any(line.startswith("0/1 landed ") for line in lines)
    assert any(line.startswith("a working writes a test") and len(line) <= 50 for line in lines)
    assert lines[-2].startswith("landed    a")


@pytest.mark.requirement("OWN-11")
def test_commands_say_where_they_looked_in_vain(tmp_path: Path) -> None:
    nowhere = shiftboss("logs", "a", folder=tmp_path)
    assert (nowhere.code, nowhere.out) == (1, "")
    assert f"there is no folder .shiftboss in {tmp_path}" in nowhere.err
    (tmp_path / ".shiftboss").mkdir()
    unknown = shiftboss("logs", "a", folder=tmp_path)
    folder = tmp_path / ".shiftboss" / "runs" / "*"
    assert f"no attempt at a has a folder in {folder}: no agent has worked on it" in unknown.err
    assert "or `shiftboss clean` has removed it" in unknown.err
    for swarm in ("one", "two"):
        (tmp_path / ".shiftboss" / "runs" / swarm / "a.1").mkdir(parents=True)
    ambiguous = shiftboss("logs", "a", folder=tmp_path)
    assert "`shiftboss logs a --swarm one` or `shiftboss logs a --swarm two`" in ambiguous.err
    missing = shiftboss("logs", "a", "--swarm", "one", "--attempt", "7", folder=tmp_path)
    assert "these attempts have one: 1" in missing.err
