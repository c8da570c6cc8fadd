"""A server with a policy of several repos, and a worker that follows the completion contract."""

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
    """A repository with `main` checked out: the workers push there."""
    repo = Repo(path)
    repo.git("checkout", "--quiet", "main")
    repo.commit("begin", files)
    return repo


class ContractServer:
    """`policy` are the repos of the policy file. It is written as JSON, which is valid YAML."""

    def __init__(self, folder: Path, policy: dict[str, Any], **settings: object) -> None:
        """`preset` is one of the policy; the other settings are those of the server."""
        file = folder / "shiftboss.yaml"
        head = {"preset": settings.pop("preset")} if "preset" in settings else {}
        file.write_text(json.dumps(head | {"repos": policy}))
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
        defaults = {
            "subtask_title": f"Title of {task}",
            "success_criteria": ["It works"],
            "files_readonly": [],
        }
        return self.ask(
            "swarm_spawn_subtask", bead_id=task, repo=repo, files=list(files), **defaults | members
        )

    def begin(self, task: str, repo: str, *files: str, **members: object) -> None:
        """Spawn a task and let the worker take it."""
        self.ask("register_worker", name=WORKER)
        self.spawn(task, repo, *files, submit=True, **members)
        assigned = self.ask("poll_task", name=WORKER, timeout_ms=10_000)["task"]
        assert assigned["bead_id"] == task
        self.ask("ack_task", name=WORKER, bead_id=task)

    def report(self, task: str, line: str, **members: object) -> dict[str, Any]:
        return self.ask("report_milestone", bead_id=task, line=line, **members)

    def push(self, task: str, repo: str, sha: str, run: str = "1") -> dict[str, Any]:
        return self.report(task, f"PUSHED_TO_CI: {repo} commit {sha[:12]} - CI run #{run}")

    def events(self, kind: str) -> list[SseEvent]:
        return [event for event in self.client.stored_events("default") if event.kind == kind]

    def event(
        self, kind: str, matches: Callable[[SseEvent], bool] = lambda _event: True
    ) -> dict[str, Any]:
        """Wait for the first event that matches; returns its data."""
        events: list[SseEvent] = []

        def has_matching_event() -> bool:
            events[:] = filter(matches, self.events(kind))
            return bool(events)

        wait_until(has_matching_event, f"an event {kind}", 30)
        return events[0].data

    def land(self, task: str, repo_name: str, repo: Repo, files: dict[str, str]) -> str:
        """Do a task until its claim is accepted; returns the commit."""
        self.begin(task, repo_name, *files)
        sha = repo.commit(task, files)
        self.push(task, repo_name, sha)
        self.event("claim_accepted", lambda event: event.data["bead_id"] == task)
        return sha
