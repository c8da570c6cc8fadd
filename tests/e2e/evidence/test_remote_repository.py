"""Repositories that are named by a URL: fetched into the mirror of whoever looks at them."""

from __future__ import annotations

import base64
import subprocess
import threading
from collections.abc import AsyncIterator, Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from shiftboss.errors import EvidenceElsewhere, Forbidden, InvalidRequest
from shiftboss.evidence.mirror.transport import CREDENTIALS_VARIABLE, transport_environment
from shiftboss.evidence.subprocess.messages import failure_of
from shiftboss.protocol.policy import Policy
from tests.conformance.handoffs.handoff_fixtures import HandoffFixture, open_handoffs
from tests.repos import ENVIRONMENT, Repo
from tests.verifying import LocalEvidence

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("HO-04")]

SECRET = "a-token-that-nobody-may-see"


class GitHost:
    """Serves the bare repositories of a folder over HTTP. With `login`, only to who knows it."""

    def __init__(self, folder: Path) -> None:
        self.login: str | None = None
        self.asked: list[str] = []
        host = self

        class Handler(SimpleHTTPRequestHandler):
            def __init__(self, *arguments: Any) -> None:
                super().__init__(*arguments, directory=str(folder))

            def do_GET(self) -> None:
                host.asked.append(self.path)
                if host.login is None or self.headers["Authorization"] == _basic(host.login):
                    super().do_GET()
                    return
                self.send_response(401)
                self.send_header("WWW-Authenticate", "Basic realm=git")
                self.end_headers()

            def log_message(self, *_arguments: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()
        self.address = f"127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _basic(login: str) -> str:
    return "Basic " + base64.b64encode(login.encode()).decode()


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return Repo(tmp_path / "clone")


@pytest.fixture
def host(tmp_path: Path, repo: Repo, monkeypatch: pytest.MonkeyPatch) -> Iterator[GitHost]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    (tmp_path / "srv").mkdir()
    host = GitHost(tmp_path / "srv")
    push(repo)
    yield host
    host.close()


def push(repo: Repo) -> None:
    """All branches, to the repository that the host serves."""
    bare = repo.path.parent / "srv" / "app.git"
    if not bare.exists():
        repo.git("clone", "--quiet", "--bare", str(repo.path), str(bare))
        repo.git("--git-dir", str(bare), "symbolic-ref", "HEAD", "refs/heads/main")
    repo.git("push", "--quiet", str(bare), "--all")
    command = ["git", "--git-dir", str(bare), "update-server-info"]
    subprocess.run(command, env=ENVIRONMENT, check=True)


@pytest.fixture
async def handoffs(
    sqlite_path: str, repo: Repo, host: GitHost, tmp_path: Path
) -> AsyncIterator[HandoffFixture]:
    evidence = LocalEvidence(tmp_path / "state", None)
    policy = Policy.model_validate({"repos": {"app": {"url": url_of(host)}}})
    async with open_handoffs(sqlite_path, evidence, repo, verifies=True, policy=policy) as it:
        yield it


def url_of(host: GitHost) -> str:
    return f"http://{host.address}/app.git"


async def test_a_task_in_a_repository_by_its_url_is_spawned_verified_and_accepted(
    handoffs: HandoffFixture, repo: Repo, host: GitHost
) -> None:
    """The operator may name any; nobody on this machine has it."""
    url = f"{url_of(host)}/"
    spawned = await handoffs.plan("t", "src/auth/", repo=url, branch="task")
    assert (spawned.repo, spawned.base_commit) == (url, repo.base)
    commit = repo.commit("work", {"src/auth/login.py": "token\n"})
    refusal = await handoffs.refusal_of("t", commit=commit, wait_ms=60_000)
    assert f"{commit} is not in the repository" in refusal.detail, "it was not pushed"
    push(repo)
    answer = await handoffs.complete("t", commit=commit, wait_ms=60_000)
    assert (answer.status, answer.commit) == ("accepted", commit)
    assert (await handoffs.receipt("t"))["repo"] == url


async def test_a_worker_may_name_only_the_urls_of_the_policy(
    handoffs: HandoffFixture, host: GitHost
) -> None:
    before = len(host.asked)
    with pytest.raises(Forbidden, match="only the operator may spawn a task in a repository by"):
        await handoffs.spawn("t", "src/", repo=f"http://{host.address}/other.git")
    assert len(host.asked) == before, "it is not even fetched"
    spawned = await handoffs.spawn("t", "src/auth/", repo=url_of(host))
    assert (spawned.repo, spawned.branch) == (url_of(host), "main")


async def test_a_repo_of_the_policy_needs_no_path(handoffs: HandoffFixture, host: GitHost) -> None:
    spawned = await handoffs.spawn("t", "src/auth/", repo="app")
    assert (spawned.repo, spawned.branch) == (url_of(host), "main")


@pytest.mark.parametrize("url", ["ext::sh", f"https://user:{SECRET}@host/app", "git@-oX=y:z"])
async def test_the_operator_cannot_name_commands_options_or_credentials_either(
    handoffs: HandoffFixture, url: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await handoffs.plan("t", "src/", repo=url)
    assert refused.value.field == "repo"
    assert SECRET not in f"{refused.value.detail} {refused.value.hint}"


async def test_credentials_come_from_a_private_file_and_are_seen_nowhere(
    handoffs: HandoffFixture, host: GitHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.login = f"robot:{SECRET}"
    with pytest.raises(EvidenceElsewhere) as refused:
        await handoffs.plan("t", "src/auth/", repo=f"{url_of(host)}/")
    assert SECRET not in str(failure_of(1, refused.value))
    file = tmp_path / "git credentials"
    file.write_text(f"http://robot:{SECRET}@{host.address.replace(':', '%3a')}\n")
    file.chmod(0o600)
    monkeypatch.setenv(CREDENTIALS_VARIABLE, str(file))
    assert SECRET not in str(transport_environment(is_local=False))
    assert transport_environment(is_local=True).keys() == {"GIT_ALLOW_PROTOCOL"}
    spawned = await handoffs.plan("t", "src/auth/", repo=f"{url_of(host)}/", branch="task")
    assert SECRET not in spawned.model_dump_json()
    # A host that refuses them for a while does not make git forget them.
    host.login = "robot:another"
    with pytest.raises(EvidenceElsewhere):
        await handoffs.plan("u", "src/lib/", repo=f"{url_of(host)}/")
    assert SECRET in file.read_text()
