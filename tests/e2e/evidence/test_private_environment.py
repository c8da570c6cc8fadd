"""Code under test finds no token in the environments of our processes, also without a sandbox."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.acceptance.bus.bus import ask
from tests.client import Client
from tests.commands import running_unforked
from tests.plan_runs import FEWER_RUNS, PlanProject, task
from tests.repos import UNCONTAINED, Repo
from tests.running import RunningServer

pytestmark = [
    pytest.mark.requirement("HO-05"),
    pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc"),
]

OPERATOR = "the-token-of-the-operator-alone"
# A policy may name any variable, so its name does not look like a secret.
FORGE = {"FORGE": "the-token-of-the-forge"}
SECRETS = {"SHIFTBOSS_OPERATOR_TOKEN": OPERATOR, **FORGE}
# Reads what it can of all processes of Shiftboss, and whether it can read any.
PEEK = f"""
import json, pathlib, sys

SECRETS = {[value.encode() for value in SECRETS.values()]}


def read(path):
    try:
        return path.read_bytes()
    except OSError:
        return b""


processes = [path for path in pathlib.Path("/proc").iterdir() if path.name.isdigit()]
ours = [path for path in processes if b"shiftboss" in read(path / "cmdline")]
seen = [
    [path.name, file, read(path / "cmdline").decode()]
    for path in ours
    for file in ("environ", "cmdline")
    if any(secret in read(path / file) for secret in SECRETS)
]
is_able = b"SHIFTBOSS_COMMAND" in read(pathlib.Path("/proc/self/environ"))
pathlib.Path(sys.argv[1]).write_text(json.dumps([is_able, len(ours) > 1, seen]))
"""
ABLE_AND_BLIND: list[Any] = [True, True, []]
# A process with a secret in its environment, and one of the same user that looks at it before and
# after it is hidden. Root is not kept out, so both become another user.
TWO_PROCESSES = """
import ctypes, os, pathlib, sys
from shiftboss.system import private_environment
from shiftboss.system.processes import descendants

def become_ordinary():
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
    descendants.control_process(descendants.PR_SET_DUMPABLE, 1)  # as after the start of a program

def attempts(pid):
    for path in ("environ", "mem"):
        try:
            with open(f"/proc/{pid}/{path}", "rb") as file:
                yield path if path == "mem" or b"hunter2" in file.read() else f"blank {path}"
        except OSError:
            pass
    if ctypes.CDLL(None).ptrace(16, pid, None, None) == 0:
        yield "ptrace"

def look(pid):
    reader, writer = os.pipe()
    thief = os.fork()
    if thief == 0:
        become_ordinary()
        os.write(writer, " ".join(attempts(pid)).encode())
        os._exit(0)
    os.close(writer)
    os.waitpid(thief, 0)
    return os.read(reader, 4096).decode()

ready, tell = os.pipe()
go, order = os.pipe()
victim = os.fork()
if victim == 0:
    become_ordinary()
    os.write(tell, b".")
    os.read(go, 1)
    if "hide" in sys.argv:
        private_environment.hide_secrets()
    else:
        private_environment._blank_environment()
    assert os.environ["SECRET"] == "hunter2"
    assert ctypes.CDLL(None).getenv(b"SECRET") != 0
    os.write(tell, b".")
    os.read(go, 1)
    os._exit(0)
os.read(ready, 1)
before = "environ" if b"hunter2" in pathlib.Path(f"/proc/{victim}/environ").read_bytes() else ""
os.write(order, b".")
os.read(ready, 1)
print(before, "|", look(victim))
os.kill(victim, 9)
"""


def claimed(client: Client, repo: Repo, found: Path) -> str:
    """Claim a task whose criterion looks for secrets; its state after the verdict."""
    spawn = {
        "files": ["src/auth/"],
        "success_criteria": [f"Command passes: python3 tools/peek.py {found}"],
        "repo": str(repo.path),
        "policy": UNCONTAINED | FEWER_RUNS,
    }
    ask(client, "swarm_spawn_subtask", bead_id="t-1", subtask_title="T", **spawn)
    repo.commit("work", {"src/auth/login.py": "def login():\n    return 'token'\n"})
    return str(ask(client, "swarm_complete", bead_id="t-1", wait_ms=60_000)["status"])


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    repo = Repo(tmp_path / "repo")
    repo.git("checkout", "--quiet", "main")
    repo.base = repo.commit("set up", {"tools/peek.py": PEEK})
    repo.git("checkout", "--quiet", "-B", "task")
    return repo


def test_a_criterion_reads_no_token_of_the_server_and_its_evidence_process(
    repo: Repo, tmp_path: Path
) -> None:
    options = ("--port", "0", "--db", str(tmp_path / "db"), "--spawning", "everybody", "--json")
    with running_unforked("serve", *options, **SECRETS) as process:
        client = Client(json.loads(process.line())["address"])
        try:
            assert claimed(client, repo, tmp_path / "found") == "accepted"
        finally:
            client.close()
        assert json.loads((tmp_path / "found").read_text()) == ABLE_AND_BLIND


def test_a_criterion_reads_no_token_of_a_verifier(repo: Repo, tmp_path: Path) -> None:
    server = RunningServer(
        tmp_path / "db", verifies=False, operator_token=OPERATOR, spawning="everybody"
    ).start()
    client = Client(server.url)
    command = ("verifier", "--folder", str(tmp_path / "v"), "--name", "first")
    try:
        with running_unforked(*command, SHIFTBOSS_URL=server.url, **SECRETS):
            assert claimed(client, repo, tmp_path / "found") == "accepted"
    finally:
        client.close()
        server.close()
    assert json.loads((tmp_path / "found").read_text()) == ABLE_AND_BLIND


class ProjectWithSecrets(PlanProject):
    forked = False  # its processes are inspected

    def environment(self) -> dict[str, str]:
        return super().environment() | SECRETS


def test_a_criterion_and_an_agent_of_a_run_read_no_token(tmp_path: Path) -> None:
    """The criterion looks at the orchestrator, its server and the evidence process; the agent also
    at its guardian."""
    project = ProjectWithSecrets(tmp_path)
    (project.repo / "peek.py").write_text(PEEK)
    project.git("add", "--all")
    project.git("commit", "--quiet", "-m", "Peek")
    peek = f"Command passes: python3 peek.py {tmp_path / 'found'}"
    agent = tmp_path / "agent.py"
    agent.write_text(
        "import os, pathlib, subprocess, sys\n"
        f"subprocess.run([sys.executable, 'peek.py', {str(tmp_path / 'found by agent')!r}])\n"
        f"pathlib.Path({str(tmp_path / 'names')!r}).write_text(' '.join(os.environ))\n"
        "pathlib.Path('one.py').write_text('it = 6\\n')\n"
        "for argv in (['add', '--all'], ['commit', '--quiet', '-m', 'Add one']):\n"
        "    subprocess.run(['git', *argv], check=True)\n"
    )
    agents = {"script": {"kind": "command", "command": [sys.executable, str(agent)]}}
    repos = {"shop": {"path": "shop", "verification": FEWER_RUNS | UNCONTAINED}}
    plan_task = task("one", criteria=[peek])
    project.plan(plan_task, agents=agents, repos=repos, attempts=1)
    # No repository of the run, so that no CI is needed.
    elsewhere = {"path": str(tmp_path / "other"), "ci": {"token_variable": "FORGE"}}
    policy = {"repos": {"elsewhere": elsewhere}}
    (project.folder / "shiftboss.yaml").write_text(yaml.safe_dump(policy))
    assert project.run()["landed"] == ["one"]
    assert json.loads((tmp_path / "found").read_text()) == ABLE_AND_BLIND
    _, sees_ours, seen = json.loads((tmp_path / "found by agent").read_text())
    assert (sees_ours, seen) == (True, [])
    assert not set(SECRETS) & set((tmp_path / "names").read_text().split())


@pytest.mark.parametrize(("how", "seen"), [("hide", ""), ("blank", "blank environ mem ptrace")])
def test_a_process_of_the_same_user_cannot_look_into_one_that_hides(how: str, seen: str) -> None:
    """What is only blank shows that the attempts would succeed."""
    environment = {**os.environ, "SECRET": "hunter2"}
    for mark in ("SHIFTBOSS_RUN", "SHIFTBOSS_COMMAND"):
        environment.pop(mark, None)
    done = subprocess.run(
        [sys.executable, "-c", TWO_PROCESSES, how],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    before, _, after = done.stdout.partition("|")
    assert (before.strip(), after.strip()) == ("environ", seen)
