"""Commands find the server of their folder by themselves, and its database when no server runs."""

from __future__ import annotations

import json
import sqlite3
import subprocess
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.acceptance.bus.bus import ask
from tests.client import Client
from tests.commands import Done, shiftboss
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
        (stopped.state / "server.json").write_text(stale)
        assert "login" in stopped("swarm", "list").out
    finally:
        other.close()


READING = [
    ("status",),
    ("status", "login"),
    ("swarm", "list"),
    ("swarm", "show", "login"),
    ("task", "list", "--swarm", "login"),
    ("task", "show", "form", "--swarm", "login"),
    ("events", "login"),
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
        assert told["text"] == "its run is not running"
        assert told["command"] == "shiftboss run '/my plans/plan.yaml'"


def test_without_a_server_the_operator_changes_the_database(stopped: Project) -> None:
    changed = "no server is running; changed .shiftboss/shiftboss.db\n"
    for command, out in (
        (("swarm", "pause", "--reason", "lunch", "login"), "login is paused until it is resumed\n"),
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


PLAN = "goal: Sums\nrepos: {shop: {path: .}}\ntasks: [{id: a, title: A, files_owned: [a.py]}]\n"


@pytest.mark.parametrize("command", ["run", "land"])
def test_a_run_does_not_mistake_another_program_for_a_server(
    tmp_path: Path, foreign_address: str, command: str
) -> None:
    (tmp_path / "plan.yaml").write_text(PLAN)
    done = shiftboss(command, "plan.yaml", "--server", foreign_address, folder=tmp_path)
    assert (done.code, "Traceback" in done.err) == (1, False)
    assert f"{foreign_address} answers, but it is not a Shiftboss server; " in done.err


def test_a_run_says_at_once_that_the_named_server_cannot_be_reached(tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text(PLAN)
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
    (tmp_path / "plan.yaml").write_text(PLAN)
    done = shiftboss(command, "plan.yaml", "--db", "/sys/shiftboss/x.db", folder=tmp_path)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("cannot use the folder /sys/shiftboss: ")
    assert done.err.endswith("; make it writable, or choose a database elsewhere with --db FILE\n")
