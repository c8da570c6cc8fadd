"""What contains the commands of a contract, and what they cannot see, reach or leave behind."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from shiftboss.evidence.checks.verifier import Verifier
from shiftboss.evidence.commands import sandbox
from shiftboss.evidence.commands.command import CommandSandbox, Limits, run_command
from shiftboss.evidence.commands.namespaces import Mount
from shiftboss.evidence.commands.sandbox import (
    RETRY_SECONDS,
    Backend,
    BackendSearch,
    Containment,
    bubblewrap_argv,
    contain,
    find_backend,
    mounts_of,
    secret_paths,
    state_paths,
)
from shiftboss.evidence.subprocess.proxy import EvidenceProxy
from shiftboss.orchestrator.git.repository import GitRepo
from shiftboss.orchestrator.landing.merge_check import MergeCheck
from shiftboss.protocol.claims.verdicts import Verdict, VerificationJob
from shiftboss.protocol.handoffs import HeldOutTests, VerificationPolicy
from tests.programs import program
from tests.repos import Repo, outcomes
from tests.verifying import verify

pytestmark = pytest.mark.requirement("OWN-16")

PROBE = """
import json, os, signal, socket, sys
from pathlib import Path

def attempt(action):
    try:
        return str(action())
    except OSError as error:
        return type(error).__name__

_, state, home, port, parents = sys.argv
print(json.dumps({
    "state": os.listdir(state),
    "other checkouts": len(os.listdir("../..")),
    "ssh": os.listdir(f"{home}/.ssh"),
    "netrc": Path(home, ".netrc").read_text(),
    "tool": Path(home, ".tools/tool").read_text(),
    "system": attempt(lambda: Path(home, "written").touch()),
    "checkout": attempt(lambda: Path("written").touch()),
    "temporary": attempt(lambda: Path("/tmp/written").touch()),
    "memory": attempt(lambda: Path("/dev/shm/written").touch()),
    "processes": sorted(int(name) for name in os.listdir("/proc") if name.isdigit())[:2],
    "init": attempt(lambda: os.kill(1, signal.SIGKILL)),
    "parents": attempt(lambda: os.kill(int(parents), signal.SIGKILL)),
    "network": attempt(lambda: socket.create_connection(("127.0.0.1", int(port)), 5)),
    "history": os.popen("git log --format=%s").read().split(),
    "own": attempt(lambda: os.kill(os.getpid(), 0)),
}))
"""
CONNECT = "import socket, sys; socket.create_connection(('127.0.0.1', int(sys.argv[1])), 5)"

# Leaves a daemon with an empty environment that writes into every checkout that it sees, and kills
# its parent.
ATTACK = """
import os, signal, sys, time
from pathlib import Path
DAEMON = '''
import sys, time
from pathlib import Path
own, ready = Path(sys.argv[1]), Path(sys.argv[1], "ready")
ready.touch()
until = time.monotonic() + 60
while time.monotonic() < until:
    for files in own.parent.parent.glob("*/files"):
        if files != own:
            (files / "README.md").write_text("changed")
'''
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    os.execve(sys.executable, [sys.executable, "-c", DAEMON, os.getcwd(), sys.argv[1]], {})
while not Path("ready").exists():
    time.sleep(0.001)
os.kill(os.getppid(), signal.SIGKILL)
"""


@pytest.fixture(scope="module")
def backend() -> Backend:
    found = asyncio.run(find_backend())
    if found.name is None:
        reason = f"there is no sandbox: {found.reason}"
        if "CI" in os.environ:
            pytest.fail(reason)
        pytest.skip(reason)
    return found


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    repo = Repo(tmp_path / "repo")
    tools = {"tools/probe.py": PROBE, "tools/connect.py": CONNECT, "tools/attack.py": ATTACK}
    repo.base = repo.commit("base2", tools)
    repo.commit("work", {"src/auth/login.py": "x = 1\n"})
    return repo


@pytest.fixture
def port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


@pytest.fixture
def outside() -> Iterator[tuple[Path, Path]]:
    """A state folder, and a home folder with secrets and a tool. Not in a temporary folder, which
    would be hidden anyway."""
    folder = Path(tempfile.mkdtemp(prefix=".sandbox-test-", dir=Path.home()))
    state, home = folder / "state", folder / "home"
    for file, text in {
        state / "receipt-key.pem": "key",
        home / ".ssh" / "id": "key",
        home / ".netrc": "password",
        home / ".tools" / "tool": "hammer",
    }.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    yield state, home
    shutil.rmtree(folder)


def verified(folder: Path, state: Path, job: VerificationJob) -> Verdict:
    async def run() -> Verdict:
        verifier = Verifier(folder / "verifier", hidden=[state])
        try:
            return await verifier.verify(job)
        finally:
            await verifier.close()

    return asyncio.run(run())


@pytest.mark.usefixtures("backend")
def test_a_criterion_sees_no_secrets_and_reaches_nothing(
    tmp_path: Path,
    repo: Repo,
    port: int,
    outside: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    state, home = outside
    monkeypatch.setenv("HOME", str(home))
    probe = f"python3 tools/probe.py {state} {home} {port} {os.getpid()}"
    verdict = verified(tmp_path, state, repo.job(criteria=[f"Command passes: {probe}"]))
    seen = json.loads(verdict.checks[-1].output_tail or verdict.checks[-1].message)
    assert seen == {
        "state": [],
        "other checkouts": 1,
        "ssh": [],
        "netrc": "",
        "tool": "hammer",
        "system": "OSError",
        "checkout": "None",
        "temporary": "None",
        "memory": "None",
        "processes": [1, 2],
        "init": "None",
        "parents": "ProcessLookupError",
        "network": "ConnectionRefusedError",
        "history": ["work", "base2", "base"],
        "own": "None",
    }
    assert verdict.accepted
    assert not Path("/tmp/written").exists()
    assert verdict.checks[-1].sandbox in ("namespaces", "bubblewrap")


@pytest.mark.usefixtures("backend")
def test_merged_work_sees_no_state_when_it_lands(
    tmp_path: Path, outside: tuple[Path, Path]
) -> None:
    """Neither that of the run, nor that of another server beside the repository."""
    state, home = outside
    repo = Repo(home / "repo")
    keys = [state / "receipt-key.pem", repo.path / ".shiftboss" / "receipt-key.pem"]
    keys[1].parent.mkdir()
    keys[1].write_text("key")
    criteria = [f"Command passes: grep -q key {key}" for key in keys]
    policy = VerificationPolicy()

    async def failures() -> list[str | None]:
        merge_check = MergeCheck(tmp_path / "landing", state)
        git_repo = await GitRepo.at(repo.path)
        try:
            found = [
                await merge_check.first_failure(git_repo, repo.base, "bd-1", [one], policy, [])
                for one in criteria
            ]
        finally:
            await merge_check.close()
        return [failure.subject if failure is not None else None for failure in found]

    assert asyncio.run(failures()) == criteria


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize(
    ("network", "setup", "criterion"),
    [
        ("none", "failed", "unverifiable"),
        ("setup", "passed", "failed"),
        ("all", "passed", "passed"),
    ],
)
def test_the_policy_says_which_commands_have_the_network(
    tmp_path: Path, repo: Repo, port: int, network: str, setup: str, criterion: str
) -> None:
    connect = f"python3 tools/connect.py {port}"
    policy = {"network": network, "setup": [connect]}
    (verdict,) = verify(tmp_path, repo.job(criteria=[f"Command passes: {connect}"], policy=policy))
    found = outcomes(verdict)
    assert (found["setup"], found["criterion"]) == (setup, criterion)


@pytest.mark.usefixtures("backend")
@pytest.mark.requirement("OWN-14")
def test_a_setup_that_sees_held_out_tests_cannot_send_them_away(
    tmp_path: Path, repo: Repo, port: int
) -> None:
    """It sees them only if the tests did not run with those that were written after it.

    A held-out file with a changed time has to be compared with what was laid over the commit.
    """
    sends = (
        "import os, socket, sys\n"
        "if os.path.exists('tests/test_more.py'):\n"
        "    try:\n"
        "        socket.create_connection(('127.0.0.1', int(sys.argv[1])), 5)\n"
        "        sys.exit('sent')\n"
        "    except ConnectionRefusedError:\n        pass\n"
        "    os.mkdir('build')\n"
        "    os.link('tests/test_more.py', 'build/test_more.py')\n"
        "    os.utime('tests/test_more.py', (1, 1))\n"
    )
    test = "import unittest\nclass A(unittest.TestCase):\n    def test_a(self): pass\n"
    repo.commit("work", {"src/auth/sends.py": sends, ".gitignore": "build/\n"})
    held_out = HeldOutTests(
        files={"tests/test_more.py": test},
        criterion="Tests pass: python3 -m unittest discover -s build",
    )
    policy = {"setup": [f"python3 src/auth/sends.py {port}"], "canaries": "off"}
    job = repo.job(owned=["src/auth/", ".gitignore"], policy=policy, held_out=held_out)
    (verdict,) = verify(tmp_path, job)
    assert outcomes(verdict)["held_out"] == "passed", verdict.violations


def test_without_the_required_sandbox_nothing_is_run(
    tmp_path: Path, repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing() -> Backend:
        return Backend(None, reason="no namespaces")

    monkeypatch.setattr(sandbox, "_search", BackendSearch(nothing))
    criteria = ["Command passes: python3 tools/connect.py 1"]
    required, auto, off = verify(
        tmp_path,
        repo.job(criteria=criteria, policy={"sandbox": "required"}),
        repo.job(criteria=["Command passes: true"], policy={"sandbox": "auto"}),
        repo.job(criteria=["Command passes: true"], policy={"sandbox": "off"}),
    )
    check = required.checks[-1]
    assert (check.outcome, check.output_tail) == ("failed", "")
    assert "the policy requires a sandbox, and there is none here: no namespaces" in check.message
    assert "shiftboss doctor" in required.violations[0].hint
    assert auto.accepted
    assert auto.checks[-1].sandbox == "none: no namespaces"
    assert off.accepted
    assert off.checks[-1].sandbox == "none: switched off by the policy"


@pytest.mark.anyio
@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("mode", ["required", "off"])
async def test_nothing_of_a_criterion_survives_into_the_next_claim(
    tmp_path: Path, repo: Repo, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    policy = {"sandbox": mode}
    attack = f"Command passes: python3 tools/attack.py {tmp_path.name}"
    untouched = "Command passes: git diff --exit-code"
    evidence = EvidenceProxy(tmp_path / "state", None)
    try:
        first = await evidence.verify(repo.job(criteria=[attack], policy=policy))
        assert first.accepted == (mode == "required"), first.checks[-1]
        assert [
            process for process in psutil.process_iter() if _is_of(process, tmp_path.name)
        ] == []
        second = await evidence.verify(repo.job(criteria=[untouched], policy=policy))
        assert second.accepted, second.violations
    finally:
        await evidence.close()


def _is_of(process: psutil.Process, name: str) -> bool:
    """The evidence process has the name in its arguments as well, as a part of a path."""
    try:
        return name in process.cmdline()
    except psutil.Error:
        return False


def test_only_a_sandbox_that_was_found_is_remembered_for_good() -> None:
    """A trial on a busy machine may fail. Callers at the same time share one."""
    trials, now = [Backend(None, reason="timed out"), Backend("namespaces")], 1000.0

    async def attempt() -> Backend:
        await asyncio.sleep(0)
        return trials.pop(0)

    search = BackendSearch(attempt, lambda: now)

    async def found() -> set[str | None]:
        return {one.name for one in await asyncio.gather(search.backend(), search.backend())}

    assert asyncio.run(found()) == {None}
    now += RETRY_SECONDS - 1
    assert asyncio.run(found()) == {None}
    now += 1
    assert asyncio.run(found()) == {"namespaces"}
    now += 10 * RETRY_SECONDS
    assert asyncio.run(found()) == {"namespaces"}
    assert trials == []


def test_both_ways_make_the_same_mounts_each_after_those_around_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    trees = tmp_path / "shiftboss"
    trees.mkdir()
    hidden, inside = tmp_path / "hidden", tmp_path / "hidden" / "deep" / "files"
    inside.mkdir(parents=True)
    file = tmp_path / "hidden.pem"
    file.touch()
    containment = Containment([inside], tmp_path, hidden=[hidden, file, tmp_path / "missing"])
    mounts = mounts_of(containment)
    targets = [mount.target for mount in mounts]
    assert targets.index(str(hidden)) < targets.index(str(inside))
    assert str(tmp_path / "missing") not in targets
    assert Mount("empty", str(trees)) in mounts
    assert Mount("read", str(file), "/dev/null") in mounts
    argv = bubblewrap_argv("bwrap", mounts, network=True)
    positions = [argv.index(target) for target in targets]
    assert positions == sorted(positions)
    assert "--unshare-net" not in argv
    assert "--unshare-net" in bubblewrap_argv("bwrap", mounts, network=False)


def test_the_state_in_a_shared_folder_is_told_from_other_files(tmp_path: Path) -> None:
    for name in ("bus.db", "bus.db-wal", "operator-token", "receipt-key.pem", "app.py"):
        (tmp_path / name).touch()
    hidden = {path.name for path in state_paths(tmp_path)}
    assert hidden == {"bus.db", "bus.db-wal", "operator-token", "receipt-key.pem"}
    assert state_paths(tmp_path / ".shiftboss") == [tmp_path / ".shiftboss"]


class Contained:
    """Runs commands in a sandbox, without a verifier."""

    def __init__(self, folder: Path, backend: Backend) -> None:
        self.files = folder / "files"
        temporary = folder / "tmp"
        for made in (self.files, temporary):
            made.mkdir()
        self.sandbox: CommandSandbox = contain(backend, Containment([self.files], temporary))

    async def python(self, program: str, **limits: Any) -> Any:
        environment = {"PATH": os.environ["PATH"]}
        bounds = Limits(**({"seconds": 30, "megabytes": 512} | limits))
        argv = [sys.executable, "-c", program]
        return await run_command(argv, self.files, bounds, environment, self.sandbox)


@pytest.fixture(params=["this machine's", "bubblewrap"])
def contained(tmp_path: Path, request: pytest.FixtureRequest) -> Contained:
    if request.param != "bubblewrap":
        return Contained(tmp_path, request.getfixturevalue("backend"))
    return Contained(tmp_path, Backend("bubblewrap", program("bwrap")))


@pytest.mark.anyio
async def test_limits_and_ends_are_those_of_a_command_without_a_sandbox(
    contained: Contained,
) -> None:
    ended = await contained.python("import sys; sys.exit(3)")
    assert (ended.exit_code, ended.message) == (3, "exit code 3")
    killed = await contained.python("import os; os.kill(os.getpid(), 11)")
    assert killed.message == "killed by signal 11 (SIGSEGV)"
    late = await contained.python("import time; time.sleep(1000)", seconds=0.5)
    assert late.timed_out
    hog = "kept = bytearray(b'x') * 300_000_000\nimport time; time.sleep(1000)"
    assert (await contained.python(hog, megabytes=200)).out_of_memory
    missing = await run_command(["no-such"], contained.files, Limits(5, 64), {}, contained.sandbox)
    assert missing.message == "not found: no-such"


@pytest.mark.anyio
async def test_a_signal_to_the_whole_group_does_not_reach_the_supervisor(
    contained: Contained,
) -> None:
    program = "import os, signal\nsignal.signal(15, signal.SIG_IGN)\nos.killpg(0, 15)\nprint('on')"
    result = await contained.python(program)
    assert (result.exit_code, result.output_tail) == (0, "on\n")


@pytest.mark.anyio
async def test_the_sandbox_cannot_be_undone_from_inside(contained: Contained) -> None:
    program = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
print([libc.umount2(b"/tmp", 2), libc.mount(None, b"/", None, 32 | 4096, None)])
print(libc.unshare(0x10000000 | 0x00020000) in (0, -1), libc.umount2(b"/tmp", 2))
"""
    assert (await contained.python(program)).output_tail == "[-1, -1]\nTrue -1\n"


# Calls that no module of Python has.
KEYRINGS = """
import ctypes
KEYCTL, ADD_KEY, JOIN, SEARCH, SESSION = 250, 248, 1, 10, -3
def call(*arguments):
    values = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    return ctypes.CDLL(None).syscall(*values)
def join():
    return call(KEYCTL, JOIN, None) != -1
def leave_key():
    return call(ADD_KEY, b"user", b"shiftboss-test", b"seen", 4, SESSION) != -1
def finds_key():
    return call(KEYCTL, SEARCH, SESSION, b"user", b"shiftboss-test", 0) != -1
"""


@pytest.mark.anyio
async def test_no_key_of_a_criterion_is_left_for_the_next(contained: Contained) -> None:
    if os.uname().machine != "x86_64":
        pytest.skip("the numbers of the calls are those of x86_64")
    ours: dict[str, Any] = {}
    exec(KEYRINGS, ours)
    if not ours["join"]():  # a login does this: its processes share a keyring
        pytest.skip("this machine denies keyrings")
    left = await contained.python(f"{KEYRINGS}\nprint(leave_key(), finds_key())")
    assert left.output_tail == "True True\n"
    assert (await contained.python(f"{KEYRINGS}\nprint(finds_key())")).output_tail == "False\n"
    assert not ours["finds_key"]()


def test_a_key_file_elsewhere_is_hidden_from_commands(tmp_path: Path) -> None:
    state, elsewhere = tmp_path / ".shiftboss", tmp_path / "secrets" / "key.pem"
    inside = state / "key.pem"
    for file in (elsewhere, inside):
        file.parent.mkdir()
        file.write_text("key")
    # In a folder that is hidden as a whole there is no file to hide.
    assert secret_paths(state, [elsewhere, inside]) == [state, elsewhere]
