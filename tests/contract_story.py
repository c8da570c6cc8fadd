"""A server with a policy of several repos, and workers that go by the completion contract."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.client import Client, SseEvent
from tests.repos import Repo
from tests.running import RunningServer
from tests.waiting import wait_until

WORKER = "z.ai1"


def repo_on_main(path: Path, files: dict[str, str]) -> Repo:
    """With `main` checked out: the workers push there."""
    repo = Repo(path)
    repo.git("checkout", "--quiet", "main")
    repo.commit("begin", files)
    return repo


class Story:
    """`policy` are the repos of the policy file, which is JSON: that is YAML, too."""

    def __init__(self, folder: Path, policy: dict[str, Any], **settings: object) -> None:
        file = folder / "shiftboss.yaml"
        file.write_text(json.dumps({"repos": policy}))
        self.server = RunningServer(folder / "shiftboss.db", policy=str(file), **settings).start()
        token = settings.get("token")
        self.client = Client(self.server.url, token if isinstance(token, str) else None)

    def close(self) -> None:
        self.client.close()
        self.server.close()

    def ask(self, operation: str, **members: object) -> dict[str, Any]:
        response = self.client.post(f"/bus/{operation}", members)
        assert response.status_code == 200, response.text
        answer: dict[str, Any] = response.json()
        return answer

    def spawn(self, task: str, repo: str, *files: str, **members: object) -> dict[str, Any]:
        said = {
            "subtask_title": f"Title of {task}",
            "success_criteria": ["It works"],
            "files_readonly": [],
        }
        return self.ask(
            "swarm_spawn_subtask", bead_id=task, repo=repo, files=list(files), **said | members
        )

    def begin(self, task: str, repo: str, *files: str, **members: object) -> None:
        """The task in the hands of the worker."""
        self.ask("register_worker", name=WORKER)
        self.spawn(task, repo, *files, submit=True, **members)
        given = self.ask("poll_task", name=WORKER, timeout_ms=10_000)["task"]
        assert given["bead_id"] == task
        self.ask("ack_task", name=WORKER, bead_id=task)

    def report(self, task: str, line: str, **members: object) -> dict[str, Any]:
        return self.ask("report_milestone", bead_id=task, line=line, **members)

    def push(self, task: str, repo: str, sha: str, run: str = "1") -> dict[str, Any]:
        return self.report(task, f"PUSHED_TO_CI: {repo} commit {sha[:12]} - CI run #{run}")

    def events(self, kind: str) -> list[SseEvent]:
        return [one for one in self.client.stored_events("default") if one.kind == kind]

    def event(
        self, kind: str, fits: Callable[[SseEvent], bool] = lambda _event: True
    ) -> dict[str, Any]:
        """The data of the first that fits, once it is there."""
        found: list[SseEvent] = []

        def look() -> bool:
            found[:] = filter(fits, self.events(kind))
            return bool(found)

        wait_until(look, f"an event {kind}", 30)
        return found[0].data

    def land(self, task: str, repo_name: str, repo: Repo, files: dict[str, str]) -> str:
        """Work that is done and proven; its commit."""
        self.begin(task, repo_name, *files)
        sha = repo.commit(task, files)
        self.push(task, repo_name, sha)
        self.event("claim_accepted", lambda one: one.data["bead_id"] == task)
        return sha
