"""A server with a policy for two repos, core and app, and the commands for it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.acceptance.bus.bus import ask, task
from tests.client import Client
from tests.commands import Done, shiftboss
from tests.repos import Repo
from tests.running import RunningServer
from tests.waiting import wait_until

JOBS = {
    "test": {"run": ["git --version"]},
    "radicle-push": {"run": ["git cat-file -e HEAD:synced"], "needs": ["test"]},
}
CI = {"jobs": JOBS, "required_jobs": ["test"], "must_succeed": ["radicle-push"], "poll_every": 1}
WORKER = "w1"


def write_policy(folder: Path, **repos: dict[str, Any]) -> Path:
    path = folder / "shiftboss.yaml"
    path.write_text(yaml.safe_dump({"repos": repos}))
    return path


class PolicyServer:
    """`run` runs a command outside the repos; `operate` does so with the operator's token."""

    def __init__(self, server: RunningServer, client: Client, folder: Path) -> None:
        self.url = server.url
        self.client = client
        self.folder = folder
        self.core = Repo(folder / "core")
        self.app = Repo(folder / "app")
        for repo in (self.core, self.app):
            repo.git("checkout", "--quiet", "main")
        self._token = (Path(server.database).parent / "operator-token").read_text().strip()

    def run(self, *arguments: str, **variables: str) -> Done:
        return shiftboss(*arguments, url=self.url, folder=self.folder, **variables)

    def operate(self, *arguments: str) -> Done:
        return self.run(*arguments, SHIFTBOSS_OPERATOR_TOKEN=self._token)

    def ok(self, *arguments: str) -> list[str]:
        done = self.run(*arguments)
        assert (done.code, done.err) == (0, ""), done
        return done.out.splitlines()

    def json(self, *arguments: str) -> dict[str, Any]:
        done = self.run(*arguments, "--json")
        assert (done.code, done.err) == (0, ""), done
        answer: dict[str, Any] = json.loads(done.out)
        return answer

    def spawn(self, repo: str, *files: str, at_work: bool = False) -> str:
        """Spawn a task in a repo of the policy, optionally with a worker on it; returns its id."""
        task_id = f"t-{repo}"
        options = ["--title", f"Work on {repo}", "--criterion", "it is well"]
        options += [word for file in ("synced", *files) for word in ("--files", file)]
        self.ok("handoff", "spawn", task_id, "--repo", repo, *options, "--submit")
        if at_work:
            self.begin(task_id)
        return task_id

    def begin(self, task_id: str) -> None:
        ask(self.client, "register_worker", name=WORKER)
        polled = ask(self.client, "poll_task", name=WORKER, timeout_ms=5000)
        assert polled["task"]["bead_id"] == task_id
        ask(self.client, "ack_task", name=WORKER, bead_id=task_id)

    def wait_for(self, task_id: str, **members: str) -> None:
        wait_until(
            lambda: members.items() <= task(self.client, task_id).items(),
            f"{task_id} has {members}",
            seconds=30,
        )


@contextmanager
def running_policy_server(folder: Path) -> Iterator[PolicyServer]:
    repos = {"core": {"path": "core", "ci": CI}}
    repos["app"] = {"path": "app", "ci": CI, "depends_on": ["core"]}
    policy = write_policy(folder, **repos)
    server = RunningServer(folder / "state" / "shiftboss.db", policy=str(policy))
    (folder / "state").mkdir()
    try:
        client = Client(server.start().url)
        yield PolicyServer(server, client, folder)
        client.close()
    finally:
        server.close()
