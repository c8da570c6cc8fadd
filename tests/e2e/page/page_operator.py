"""What the tests of the page do beside the browser: fill swarms through the API, and log in."""

from __future__ import annotations

from typing import Any, Final

import httpx2
from playwright.sync_api import Page

from shiftboss.system.state_folder import operator_token
from tests.client import NO_CERTIFICATES
from tests.running import RunningServer

SECONDS: Final = 15.0


class Operator:
    """`operator.bus("add_task", ...)`, `operator.operate("approve", ...)`. A refusal fails."""

    def __init__(self, server: RunningServer) -> None:
        token = operator_token(server.state_folder)
        self.url = server.url
        self._http = httpx2.Client(
            base_url=server.url,
            headers={"Authorization": f"Bearer {token}"},
            timeout=SECONDS,
            trust_env=False,
            verify=NO_CERTIFICATES,
        )

    def close(self) -> None:
        self._http.close()

    def bus(self, operation: str, swarm_id: str, **members: Any) -> dict[str, Any]:
        return self._post(f"/bus/{operation}", {"swarm_id": swarm_id, **members})

    def operate(self, operation: str, **members: Any) -> dict[str, Any]:
        return self._post(f"/operator/{operation}", members)

    def create_swarm(self, swarm_id: str, feature: str = "") -> str:
        self._post("/swarm/create", {"swarm_id": swarm_id, "feature": feature})
        return swarm_id

    def add_tasks(self, swarm_id: str, titles: dict[str, str]) -> None:
        for bead_id, title in titles.items():
            self.bus("add_task", swarm_id, bead_id=bead_id, title=title)
            self.bus("submit_task", swarm_id, bead_id=bead_id)

    def start(self, swarm_id: str, worker: str) -> str:
        """The worker takes the next task, and starts it. Returns the id of the task."""
        self.bus("register_worker", swarm_id, name=worker)
        task = self.bus("poll_task", swarm_id, name=worker, timeout_ms=0)["task"]
        self.bus("ack_task", swarm_id, name=worker, bead_id=task["bead_id"])
        return str(task["bead_id"])

    def ask(self, swarm_id: str, worker: str, question: str) -> None:
        """The worker is blocked, and asks."""
        message = {
            "type": "blocked",
            "worker_id": worker,
            "timestamp": "2026-01-05T10:00:00Z",
            "payload": {"question": question, "contact": "operator"},
        }
        self.bus("send_message", swarm_id, message=message)

    def answer(self, swarm_id: str, answer: str) -> None:
        """Answer the only open question."""
        [question] = self.bus("list_questions", swarm_id, only_open=True)["questions"]
        number = question["question_id"]
        self.bus("answer_question", swarm_id, question_id=number, answer=answer)

    def login_link(self) -> str:
        return str(self.operate("create_login")["url"])

    def log_in(self, page: Page) -> None:
        page.goto(self.login_link())
        page.wait_for_url(lambda url: "/login" not in url)

    def delete_swarms(self) -> None:
        swarms = self._http.get("/swarms", params={"limit": 200}).json()["swarms"]
        for swarm in swarms:
            self.operate("delete_swarm", swarm_id=swarm["swarm_id"], force=True)

    def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        answer = self._http.post(path, json=body)
        assert answer.is_success, f"{path}: {answer.text}"
        parsed: dict[str, Any] = answer.json()
        return parsed
