"""Two servers on one PostgreSQL, with state folders of their own; one has no repository."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.bus.bus import ask
from tests.client import Client
from tests.repos import UNCONTAINED, Repo
from tests.running import RunningServer
from tests.waiting import wait_until

pytestmark = pytest.mark.requirement("HO-04", "HO-05")

# An empty file system in place of a folder, for one process and its children.
_HIDE = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
user, group = os.getuid(), os.getgid()
NEW_USER, NEW_MOUNTS, PRIVATE = 0x10000000, 0x20000, 0x44000
def check(failed):
    if failed:
        sys.exit(os.strerror(ctypes.get_errno()))
# Root needs no namespace of users, in which it could not reach the socket of another user.
if libc.unshare(NEW_MOUNTS):
    check(libc.unshare(NEW_USER | NEW_MOUNTS))
    for name, text in (
        ("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")
    ):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
check(libc.mount(None, b"/", None, PRIVATE, None))
check(libc.mount(b"none", FOLDER, b"tmpfs", 0, None))
"""


def hiding(folder: Path) -> str:
    return f"FOLDER = {str(folder).encode()!r}\n{_HIDE}"


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    repo = Repo(tmp_path / "repo")
    tried = subprocess.run(
        [sys.executable, "-c", hiding(repo.path)], capture_output=True, text=True, check=False
    )
    if tried.returncode != 0:
        pytest.skip(f"a folder cannot be hidden here: {tried.stderr}")
    return repo


@pytest.fixture
def blind(postgres_url: str, repo: Repo, tmp_path: Path) -> Iterator[RunningServer]:
    """A server that does not see the repository."""
    server = RunningServer(postgres_url, state=str(tmp_path / "blind"), spawning="everybody")
    server.prelude = hiding(repo.path)
    try:
        yield server.start()
    finally:
        server.close()


@pytest.fixture
def seeing(postgres_url: str, tmp_path: Path) -> Iterator[RunningServer]:
    server = RunningServer(postgres_url, state=str(tmp_path / "seeing"), spawning="everybody")
    try:
        yield server
    finally:
        server.close()


def test_honest_work_that_a_server_without_the_repository_takes_first_is_accepted(
    blind: RunningServer, seeing: RunningServer, repo: Repo
) -> None:
    """It refused the claim: "is not a git repository"."""
    with closing(Client(seeing.start().url)) as here, closing(Client(blind.url)) as there:
        ask(
            here,
            "swarm_spawn_subtask",
            bead_id="t",
            subtask_title="T",
            files=["src/"],
            success_criteria=["It works"],
            repo=str(repo.path),
            policy=UNCONTAINED,
        )
        repo.commit("work", {"src/new.py": "x = 1\n"})
        seeing.kill()
        assert ask(there, "swarm_complete", bead_id="t", wait_ms=0)["status"] == "verifying"
        wait_until(lambda: open_claim(there)["passes"], "it was looked at", 30)
        (passed,) = open_claim(there)["passes"]
        assert passed["reason"] == f"{repo.path} is not a git repository"
        seeing.start()
        done = ask(here, "swarm_complete", bead_id="t", wait_ms=60_000)
        assert done["status"] == "accepted"


def open_claim(client: Client) -> dict[str, Any]:
    (claim,) = ask(client, "list_claims")["claims"]
    assert claim["state"] in ("waiting", "taken"), claim
    found: dict[str, Any] = claim
    return found
