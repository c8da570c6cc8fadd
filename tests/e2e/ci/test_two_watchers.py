"""Two real servers on one PostgreSQL: one asks the forge, and when it dies the other goes on."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx2
import pytest

from tests.acceptance.bus.bus import ask
from tests.client import Client
from tests.forge import REPOSITORY, Forge, running_forge
from tests.repos import Repo
from tests.running import RunningServer
from tests.waiting import wait_until

pytestmark = pytest.mark.requirement("CC-03")

NAMES = ("one", "other")
SECRET = "w3bh00k"


class TwoServers:
    """Each server has a token of its own, by which the forge recognises it. They do not verify,
    because a verification asks the forge, too."""

    def __init__(self, folder: Path, forge: Forge, database: str, poll_every: int) -> None:
        self.forge = forge
        forge.branch = "task"
        self.repo = Repo(folder / "sdk")
        ci = forge.demand(poll_every=poll_every, webhook_secret_variable="HOOK_SECRET").policy
        sdk = {"path": "sdk", "branch": "task", "ci": ci.model_dump(mode="json", exclude_none=True)}
        policy = folder / "shiftboss.yaml"
        policy.write_text(json.dumps({"repos": {"sdk": sdk}}))
        self.servers = {
            name: RunningServer(
                database, policy=str(policy), state=str(folder / name), verifies=False
            )
            for name in NAMES
        }

    def start(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name, server in self.servers.items():
            monkeypatch.setenv("FORGE_TOKEN", name)
            server.start()
        self.clients = {name: Client(server.url) for name, server in self.servers.items()}

    def follow(self) -> str:
        """A commit whose CI runs is followed; the name of the server that asks about it."""
        client = self.clients["other"]
        ask(client, "register_worker", name="w")
        ask(
            client,
            "swarm_spawn_subtask",
            bead_id="t",
            repo="sdk",
            files=["src/auth/"],
            subtask_title="Fees",
            success_criteria=["It works"],
            submit=True,
        )
        ask(client, "ack_task", name="w", bead_id="t")
        self.sha = self.repo.commit("work", {"src/auth/login.py": "# fee\n"})
        self.run = self.forge.push(self.sha, test="running")
        line = f"PUSHED_TO_CI: sdk commit {self.sha[:7]} - CI run #89"
        ask(client, "report_milestone", bead_id="t", name="w", line=line)
        wait_until(lambda: "ci_run_found" in self.kinds("other"), "the run is found", 30)
        (asks,) = self.asked_by()
        return asks

    def asked_by(self) -> set[str]:
        return {str(one).split(" ")[-1] for one in self.forge.authorizations}

    def kinds(self, name: str) -> list[str]:
        return [event.kind for event in self.clients[name].stored_events("default")]

    def close(self) -> None:
        for server in self.servers.values():
            server.close()
        for client in self.clients.values():
            client.close()


@pytest.fixture
def servers(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    postgres_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[TwoServers]:
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    with ExitStack() as stack:
        forge = stack.enter_context(running_forge("github"))
        forge.accepted_token = None
        servers = TwoServers(tmp_path, forge, postgres_url, request.param)
        stack.callback(servers.close)
        servers.start(monkeypatch)
        yield servers


def another_than(name: str) -> str:
    return NAMES[1 - NAMES.index(name)]


@pytest.mark.parametrize("servers", [1], indirect=True)
def test_one_server_polls_the_forge_and_the_other_takes_over_when_it_is_killed(
    servers: TwoServers,
) -> None:
    asks = servers.follow()
    before = servers.forge.asked
    wait_until(lambda: servers.forge.asked >= before + 2, "it is asked again", 30)
    assert servers.asked_by() == {asks}
    servers.servers[asks].kill()
    left = another_than(asks)
    servers.run.jobs["test"] = "success"
    wait_until(lambda: "ci_passed" in servers.kinds(left), "the other server finds it green", 60)
    assert servers.asked_by() == set(NAMES)
    assert servers.kinds(left).count("ci_passed") == 1


@pytest.mark.parametrize("servers", [3600], indirect=True)
def test_a_webhook_to_one_server_makes_the_polling_server_check_at_once(
    servers: TwoServers,
) -> None:
    asks = servers.follow()
    servers.run.jobs["test"] = "success"
    payload = {"workflow_run": {"head_sha": servers.sha}, "repository": {"full_name": REPOSITORY}}
    body = json.dumps(payload).encode()
    digest = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    answer = httpx2.post(
        f"{servers.servers[another_than(asks)].url}/ci/webhook/sdk",
        headers={"X-GitHub-Event": "workflow_run", "X-Hub-Signature-256": f"sha256={digest}"},
        content=body,
        timeout=30,
        trust_env=False,
    )
    assert answer.json() == {"looks": 1}
    wait_until(lambda: "ci_passed" in servers.kinds(asks), "the run is seen green", 20)
    assert servers.asked_by() == {asks}
