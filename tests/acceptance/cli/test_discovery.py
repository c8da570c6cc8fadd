"""Commands find the server of their folder by themselves, and its database when no server runs."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from shiftboss.client.local_server import find_live_server
from shiftboss.system.private_files import write_private
from shiftboss.system.state_folder import ServerRecord, write_server_file
from tests.acceptance.bus.bus import ask
from tests.acceptance.bus.bus_calls import message
from tests.client import Client
from tests.commands import Done, shiftboss
from tests.repos import Repo
from tests.running import RunningServer

pytestmark = pytest.mark.requirement("OWN-12")


class Project:
    """A folder with a state folder, and a server that is up or not."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = folder / ".shiftboss"
        self.server = RunningServer(self.state / "shiftboss.db")

    def __call__(self, *arguments: str, below: str = ".", **variables: str) -> Done:
        return shiftboss(*arguments, folder=self.folder / below, **variables)


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    project = Project(tmp_path)
    (tmp_path / "src" / "deep").mkdir(parents=True)
    try:
        yield project
    finally:
        project.server.close()


@pytest.fixture
def stopped(project: Project) -> Project:
    """With the swarm `login`, which has one task, and no server."""
    project.server.start()
    assert project("swarm", "create", "--id", "login").code == 0
    assert project("task", "add", "form", "--title", "The form", "--swarm", "login").code == 0
    project.server.stop()
    return project


def test_a_server_is_found_from_its_folder_and_below(project: Project) -> None:
    project.server.start()
    record = json.loads((project.state / "server.json").read_text())
    assert (record["address"], record["pid"]) == (project.server.url, project.server.pid)
    assert (project.state / "server.json").stat().st_mode & 0o777 == 0o600
    for below in (".", "src", "src/deep"):
        done = project("status", below=below)
        assert (done.code, done.err) == (0, "")
        assert project.server.url in done.out
    project.server.stop()
    assert not (project.state / "server.json").exists()


def test_the_operator_of_a_local_server_needs_no_set_up(project: Project) -> None:
    project.server.start()
    assert project("swarm", "create", "--id", "login").code == 0
    assert project("swarm", "pause", "--reason", "lunch", "login").code == 0
    resumed = project("swarm", "resume", "login", below="src")
    assert resumed == (0, "login is resumed\n", "")
    for tokens in ("100", "200"):
        assert project("budget", "set", "--swarm", "login", "--tokens", tokens).code == 0


def test_the_file_of_a_killed_server_is_ignored(stopped: Project) -> None:
    stopped.server.start()
    stopped.server.kill()
    assert (stopped.state / "server.json").exists()
    listed = stopped("swarm", "list")
    assert listed.code == 0
    assert listed.err == "no server is running; answered from .shiftboss/shiftboss.db\n"
    stopped.server.start()
    assert stopped("swarm", "list").err == ""


def test_another_server_at_the_address_of_a_killed_one_is_not_used(
    stopped: Project, tmp_path: Path
) -> None:
    stopped.server.start()
    stale = (stopped.state / "server.json").read_text()
    stopped.server.stop()
    port = int(json.loads(stale)["address"].rpartition(":")[2])
    (tmp_path / "other").mkdir()
    other = RunningServer(tmp_path / "other" / "shiftboss.db", port=port).start()
    try:
        record = {**json.loads(stale), "pid": other.pid}
        write_private(stopped.state / "server.json", json.dumps(record))
        assert "login" in stopped("swarm", "list").out
    finally:
        other.close()


class _Health(BaseHTTPRequestHandler):
    """Answers like a server that was started at "now"."""

    def do_GET(self) -> None:
        body = b'{"started_at": "now"}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def test_a_file_that_came_with_a_repository_names_no_server(tmp_path: Path) -> None:
    """The commands send their tokens to the server that they find."""
    file = tmp_path / "server.json"
    with subprocess.Popen(["true"]) as ended:
        pass
    with ThreadingHTTPServer(("127.0.0.1", 0), _Health) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        own = ServerRecord(f"http://127.0.0.1:{server.server_port}", os.getpid(), "now")

        def is_found(record: ServerRecord) -> bool:
            write_server_file(tmp_path, record)
            return find_live_server(tmp_path) == record

        assert is_found(own)
        for address in ("http://192.0.2.1:7432", "https://example.com", f"{own.address}/x"):
            assert not is_found(own._replace(address=address)), address
        for pid in (ended.pid, 0, -1, 1 << 40):
            assert not is_found(own._replace(pid=pid)), pid
        assert is_found(own)
        file.chmod(0o644)
        assert find_live_server(tmp_path) is None
        file.chmod(0o600)
        file.rename(tmp_path / "elsewhere.json")
        file.symlink_to("elsewhere.json")
        assert find_live_server(tmp_path) is None
        server.shutdown()


def test_agents_cannot_act_as_the_operator(project: Project) -> None:
    """They run as the same user, so they could read the token's file, and write the database."""
    project.server.start()
    assert project("swarm", "create", "--id", "login").code == 0
    pause = ("swarm", "pause", "--reason", "mine", "login")
    refusal = (
        "agents cannot act as the operator: SHIFTBOSS_TASK is set; "
        "ask a person to do this, in a shell that no agent has started\n"
    )
    resume, budget = ("swarm", "resume", "login"), ("budget", "set", "--swarm", "login")
    assert project(*pause).code == 0
    assert project(*resume, SHIFTBOSS_TASK="a") == (1, "", refusal)
    token = project.state / "operator-token"
    given = ("--operator-token-file", str(token))
    assert project(*resume, *given, SHIFTBOSS_TASK="a").code == 0
    secret = token.read_text().strip()
    raised = project(
        *(*budget, "--tokens", "9"), SHIFTBOSS_TASK="a", SHIFTBOSS_OPERATOR_TOKEN=secret
    )
    assert raised.code == 0, raised
    project.server.stop()
    assert project("swarm", "show", "login", SHIFTBOSS_TASK="a").code == 0
    for command in (pause, (*budget, "--tokens", "99"), ("task", "add", "b", "--title", "B")):
        refused = project(*command, SHIFTBOSS_TASK="a")
        assert (refused.code, refused.out) == (1, ""), command
        assert "agents cannot act as the operator" in refused.err
    assert project(*pause).code == 0


def test_a_token_is_not_read_through_a_link(project: Project) -> None:
    project.server.start()
    assert project("swarm", "create", "--id", "login").code == 0
    (project.state / "operator-token").rename(project.folder / "token")
    (project.state / "operator-token").symlink_to(project.folder / "token")
    assert project("swarm", "pause", "--reason", "lunch", "login").code == 0
    assert "no operator's token here" in project("swarm", "resume", "login").err


@pytest.mark.parametrize("command", ["serve", "run"])
def test_a_state_folder_that_came_with_a_repository_is_not_used(
    tmp_path: Path, command: str
) -> None:
    state = tmp_path / ".shiftboss"
    state.mkdir()
    write_private(state / "operator-token", "known-to-others\n")
    git = ["git", "-C", str(tmp_path)]
    subprocess.run([*git, "init", "--quiet"], check=True)
    subprocess.run([*git, "add", "--force", "."], check=True)
    write_plan(tmp_path)
    who = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    subprocess.run([*git, *who, "commit", "--quiet", "-m", "First"], check=True)
    arguments = {"serve": ("serve", "--port", "0"), "run": ("run", "plan.yaml")}[command]
    done = shiftboss(*arguments, folder=tmp_path)
    assert done.code == 1
    assert f"git tracks files in {state}, such as .shiftboss/operator-token" in done.err
    assert f"git -C {tmp_path} rm -r --force .shiftboss" in done.err


def test_all_commands_are_about_the_same_folder(stopped: Project) -> None:
    """A state folder in which nothing has happened yet does not hide the one above it."""
    run = stopped.state / "runs" / "login" / "form.1"
    run.mkdir(parents=True)
    (run / "output.log").write_text("I am done\n")
    (stopped.folder / "src" / ".shiftboss").mkdir()
    assert "login" in stopped("swarm", "list", below="src").out
    assert stopped("logs", "form", "--raw", below="src").out == "I am done\n"


def test_an_old_file_does_not_stand_in_for_a_database_server(stopped: Project) -> None:
    listed = stopped("swarm", "list", SHIFTBOSS_DB="postgresql://127.0.0.1:1/none")
    # A run of somebody else may listen at the default address.
    assert "login" not in [line.split()[0] for line in listed.out.splitlines()]
    assert "answered from" not in listed.err


def test_a_run_below_the_folder_of_its_state_continues_there(stopped: Project) -> None:
    write_plan(stopped.folder, "swarm: login\n")
    for below, db in ((".", ()), ("src/deep", ()), ("src", ("--db", "../.shiftboss/x.db"))):
        plan = str(stopped.folder / "plan.yaml")
        done = stopped("run", plan, "--stop", *db, below=below)
        assert f"looked in {stopped.state}/runs/login" in done.err
    own = stopped("run", plan, "--stop", "--db", ".shiftboss/shiftboss.db", below="src")
    assert f"looked in {stopped.folder}/src/.shiftboss/runs/login" in own.err


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--attach", "--stop"), "--attach and --stop do not go together"),
        (("--detach", "--dry-run"), "--dry-run and --detach do not go together"),
        (("--stop", "--workers", "2"), "--workers would have no effect"),
        (("--attach", "--no-wait"), "--wait/--no-wait would have no effect"),
        (("--own-server", "--server", "http://127.0.0.1:1"), "do not go together"),
    ],
)
def test_options_without_an_effect_are_refused(
    tmp_path: Path, options: tuple[str, ...], problem: str
) -> None:
    done = shiftboss("run", "plan.yaml", *options, folder=tmp_path)
    assert (done.code, done.out) == (1, "")
    assert problem in done.err


READING = [
    ("status",),
    ("status", "login"),
    ("swarm", "list"),
    ("swarm", "show", "login"),
    ("task", "list", "--swarm", "login"),
    ("task", "show", "form", "--swarm", "login"),
    ("events", "login"),
    ("replay", "login"),
    ("replay", "login", "--at", "1"),
    ("usage", "--swarm", "login"),
    ("receipt", "list"),
    ("questions", "list", "--swarm", "login"),
]


@pytest.mark.requirement("OWN-11")
def test_without_a_server_the_database_answers_and_says_so(stopped: Project) -> None:
    for command in READING:
        shown = stopped(*command)
        assert shown.code == 0, (command, shown.err)
        assert shown.err == "no server is running; answered from .shiftboss/shiftboss.db\n"
    as_json = stopped("task", "list", "--swarm", "login", "--json", below="src")
    assert as_json.err == "no server is running; answered from ../.shiftboss/shiftboss.db\n"
    assert [row["bead_id"] for row in json.loads(as_json.out)["tasks"]] == ["form"]
    refused = stopped("task", "show", "nothing", "--swarm", "login", "--json")
    assert (refused.code, json.loads(refused.out)["code"]) == (1, "unknown_task")


def test_the_doctor_says_that_no_server_is_running(stopped: Project) -> None:
    findings = json.loads(stopped("doctor", "--json").out)["findings"]
    (server,) = [finding for finding in findings if finding["check"] == "server"]
    assert server["message"] == (
        "no server is running; this command has checked the database .shiftboss/shiftboss.db"
    )


@pytest.mark.requirement("OWN-11")
def test_without_a_server_nobody_works_and_the_plan_has_to_be_run_again(project: Project) -> None:
    project.server.start()
    assert project("swarm", "create", "--id", "login").code == 0
    client = Client(project.server.url)
    for operation, members in (
        ("report_run", {"plan_file": "/my plans/plan.yaml"}),
        ("add_task", {"bead_id": "form", "title": "The form"}),
        ("register_worker", {"name": "w"}),
        ("submit_task", {"bead_id": "form"}),
        ("ack_task", {"name": "w", "bead_id": "form"}),
    ):
        ask(client, operation, swarm_id="login", **members)
    client.close()
    project.server.kill()
    (swarm,) = json.loads(project("status", "--json").out)["swarms"]
    assert (swarm["status"], swarm["bus"]["workers"]) == ("waiting", 0)
    (reason,) = json.loads(project("why", "form", "--json").out)["reasons"]
    for told in (*swarm["waiting"], reason):
        assert told["text"] == "no run is working on it"
        assert told["command"] == "shiftboss run '/my plans/plan.yaml'"


def test_without_a_server_nothing_is_handed_out_and_nobody_is_said_to_work(
    project: Project,
) -> None:
    project.server.start()
    assert project("swarm", "create", "--id", "login").code == 0
    client = Client(project.server.url)
    for operation, members in (
        ("report_run", {"plan_file": "/my plans/plan.yaml"}),
        ("add_task", {"bead_id": "form", "title": "The form"}),
        ("register_worker", {"name": "w"}),
        ("submit_task", {"bead_id": "form"}),
        ("ack_task", {"name": "w", "bead_id": "form"}),
        ("send_message", {"message": message("progress")}),
        ("send_message", {"message": message("blocked", payload={"question": "which colour?"})}),
    ):
        ask(client, operation, swarm_id="login", **members)
    client.close()
    project.server.kill()
    advice = "to continue the run: shiftboss run '/my plans/plan.yaml'\n"
    answered = project("questions", "answer", "1", "blue", "--swarm", "login")
    assert answered.out == f"the answer is recorded; {advice}"
    assert project("task", "retry", "form").out == f"form is queued; {advice}"
    shown = json.loads(project("task", "show", "form", "--json").out)
    assert (shown["status"], shown["epoch"]) == ("queued", 1)
    project.server.start()
    client = Client(project.server.url)
    polled = ask(client, "poll_task", swarm_id="login", name="w")
    client.close()
    assert polled["task"]["bead_id"] == "form"


def test_without_a_server_the_operator_changes_the_database(stopped: Project) -> None:
    changed = "no server is running; changed .shiftboss/shiftboss.db\n"
    for command, out in (
        (
            ("swarm", "pause", "--reason", "lunch"),
            "login is paused until it is resumed; resume it: shiftboss swarm resume login\n",
        ),
        (("swarm", "resume", "login"), "login is resumed\n"),
        (("budget", "set", "--swarm", "login", "--tokens", "100"), "login may use 100 tokens\n"),
        (("budget", "set", "--swarm", "login", "--tokens", "200"), "login may use 200 tokens\n"),
    ):
        assert stopped(*command) == (0, out, changed)
    cancelled = stopped("task", "cancel", "form", "--swarm", "login", "--json")
    assert (cancelled.code, cancelled.err) == (0, changed)
    stopped.server.start()
    shown = json.loads(stopped("task", "show", "form", "--swarm", "login", "--json").out)
    assert shown["status"] == "cancelled"


def test_what_needs_a_server_says_so(stopped: Project) -> None:
    followed = stopped("events", "login", "--follow")
    assert (followed.code, followed.out) == (1, "")
    assert followed.err == (
        "no server is running for .shiftboss/shiftboss.db, and nothing new can come; "
        "start one with: shiftboss serve\n"
    )


def test_a_database_that_is_in_use_is_not_changed(stopped: Project) -> None:
    holder = RunningServer(stopped.state / "shiftboss.db").start()
    try:
        (stopped.state / "server.json").unlink()
        done = stopped("swarm", "pause", "--reason", "lunch", "login")
    finally:
        holder.close()
    assert (done.code, done.out) == (1, "")
    assert "another process is using" in done.err
    assert "nothing was changed" in done.err


def test_a_database_of_an_older_version_says_how_to_bring_it_up_to_date(stopped: Project) -> None:
    connection = sqlite3.connect(stopped.state / "shiftboss.db")
    (latest,) = connection.execute("PRAGMA user_version").fetchone()
    connection.execute("PRAGMA user_version = 1")
    connection.close()
    done = stopped("swarm", "list")
    assert (done.code, done.out) == (1, "")
    assert done.err == (
        f"{stopped.state}/shiftboss.db has schema version 1; this version of shiftboss needs "
        f"{latest}; start a server once, and it brings the database up to date: shiftboss serve\n"
    )


def test_git_ignores_the_state_folder_from_its_first_moment(project: Project) -> None:
    subprocess.run(["git", "init", "--quiet"], cwd=project.folder, check=True)
    project.server.start()
    subprocess.run(["git", "add", "."], cwd=project.folder, check=True)
    staged = subprocess.run(
        ["git", "status", "--porcelain"], cwd=project.folder, check=True, capture_output=True
    )
    assert staged.stdout == b""
    assert (project.state / ".gitignore").read_text() == "*\n"
    assert project.state.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_was_there_before_gets_no_gitignore(tmp_path: Path) -> None:
    server = RunningServer(tmp_path / "shiftboss.db")
    try:
        server.start().stop()
    finally:
        server.close()
    assert not (tmp_path / ".gitignore").exists()


class _ForeignServer(BaseHTTPRequestHandler):
    """Answers everything with JSON."""

    def do_GET(self) -> None:
        body = b'{"status": "healthy"}'
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def foreign_address() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _ForeignServer) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize("others", ["http://192.0.2.1:7432", "http://boss.invalid", "http://[x"])
def test_the_operators_token_of_a_folder_is_told_to_no_other_machine(
    tmp_path: Path, others: str
) -> None:
    (tmp_path / ".shiftboss").mkdir(mode=0o700)
    write_private(tmp_path / ".shiftboss" / "operator-token", "t" * 43)
    nobody = "http://127.0.0.1:1"
    for address in (others, f"{nobody},{others}"):
        done = shiftboss("open", "--print", "--server", address, folder=tmp_path)
        assert done.code == 1
        assert "there is no operator's token here" in done.err
    here = shiftboss("open", "--print", "--server", nobody, folder=tmp_path)
    assert f"no server at {nobody}" in here.err


PLAN = """\
goal: Sums
repos: {shop: {path: shop}}
agents: {script: {kind: command, command: ["true"]}}
agent: script
tasks: [{id: a, title: A, files_owned: [a.py], criteria: ["Command passes: true"]}]
"""


def write_plan(folder: Path, more: str = "") -> None:
    Repo(folder / "shop")
    (folder / "plan.yaml").write_text(PLAN + more)


@pytest.mark.parametrize("command", ["run", "land"])
def test_a_run_does_not_mistake_another_program_for_a_server(
    tmp_path: Path, foreign_address: str, command: str
) -> None:
    write_plan(tmp_path)
    done = shiftboss(command, "plan.yaml", "--server", foreign_address, folder=tmp_path)
    assert (done.code, "Traceback" in done.err) == (1, False)
    assert f"{foreign_address} answers, but it is not a Shiftboss server; " in done.err


def test_a_run_says_at_once_that_the_named_server_cannot_be_reached(tmp_path: Path) -> None:
    write_plan(tmp_path)
    done = shiftboss("run", "plan.yaml", "--server", "http://127.0.0.1:1", folder=tmp_path)
    assert done.code == 1
    assert done.err.endswith(
        "no server at http://127.0.0.1:1; start it, or leave out --server and SHIFTBOSS_URL: "
        "then the run starts its own server\n"
    )


@pytest.mark.parametrize("command", ["run", "land"])
def test_a_run_in_a_folder_that_cannot_be_written_is_a_one_line_error(
    tmp_path: Path, command: str
) -> None:
    write_plan(tmp_path)
    done = shiftboss(command, "plan.yaml", "--db", "/sys/shiftboss/x.db", folder=tmp_path)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("cannot use the folder /sys/shiftboss: ")
    assert done.err.endswith("; make it writable, or choose a database elsewhere with --db FILE\n")


def test_a_state_folder_that_is_a_link_is_not_used(stopped: Project, tmp_path: Path) -> None:
    (tmp_path / "clone").mkdir()
    (tmp_path / "clone" / ".shiftboss").symlink_to(stopped.state)
    link = tmp_path / "clone" / ".shiftboss"
    found = stopped("swarm", "list", below="clone")
    assert found.err == "no server is running; answered from ../.shiftboss/shiftboss.db\n"
    chosen = stopped("swarm", "list", below="clone", SHIFTBOSS_DB=str(link / "shiftboss.db"))
    assert chosen.code == 0
    assert "login" in chosen.out
