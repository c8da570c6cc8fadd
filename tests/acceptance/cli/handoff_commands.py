"""The handoff commands, run against a real server with their own swarm and repository."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.acceptance.bus.bus import ask
from tests.acceptance.bus.bus_calls import InSwarm
from tests.commands import Done, shiftboss
from tests.repos import Repo
from tests.running import RunningServer

CRITERION = "Command passes: grep -q token src/auth/login.py"
HONEST = {"src/auth/login.py": "def login():\n    return 'token'\n"}


class Handoffs:
    """`run` is the command in the repository, `operate` the same with the operator's token."""

    def __init__(self, server: RunningServer, bus: InSwarm, repo: Repo) -> None:
        self.url = server.url
        self.swarm = bus.swarm_id
        self.bus = bus
        self.repo = repo
        state = Path(server.database).parent
        self.operator_token = (state / "operator-token").read_text().strip()

    def run(self, *arguments: str, **variables: str) -> Done:
        return shiftboss(
            *arguments,
            "--swarm",
            self.swarm,
            url=self.url,
            folder=self.repo.path,
            **variables,
        )

    def operate(self, *arguments: str) -> Done:
        return self.run(*arguments, SHIFTBOSS_OPERATOR_TOKEN=self.operator_token)

    def spawn(self, task: str = "t-1", *files: str, more: tuple[str, ...] = ()) -> Done:
        owned = [word for file in files or ("src/auth/",) for word in ("--files", file)]
        command = ("handoff", "spawn", task, "--title", f"Title of {task}", *owned)
        done = self.run(*command, "--criterion", CRITERION, *more)
        assert (done.code, done.err) == (0, ""), done
        return done

    def accepted(self, task: str = "t-1") -> None:
        """The task is spawned, done and proven."""
        self.spawn(task)
        self.repo.commit("work", HONEST)
        done = self.run("complete", task, "--summary", "It gives a token.")
        assert (done.code, done.err) == (0, ""), done

    def in_review(self) -> str:
        """The work of t-1 is accepted and waits for its review; its commit."""
        ask(
            self.bus,
            "swarm_spawn_subtask",
            bead_id="t-1",
            files=["src/auth/"],
            subtask_title="T",
            repo=str(self.repo.path),
            success_criteria=[CRITERION],
            target="main",
            review="required",
        )
        commit = self.repo.commit("work", HONEST)
        done = self.run("complete", "t-1", "--summary", "It gives a token.")
        assert (done.code, done.err) == (0, ""), done
        return commit

    def json(self, *arguments: str) -> dict[str, Any]:
        done = self.run(*arguments, "--json")
        assert (done.code, done.err) == (0, ""), done
        answer: dict[str, Any] = json.loads(done.out)
        return answer
