"""The operator steers a run while it goes on: questions, pauses, cancelled tasks."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shlex
import time
from pathlib import Path
from typing import Any, Self

import httpx2
import psutil
import pytest

from tests.commands import shiftboss
from tests.fork_server import start_python
from tests.plan_runs import PlanProject, task
from tests.waiting import wait_until

TOKEN = "the-token-of-the-user-who-started-the-run"
SECONDS = 60.0

pytestmark = pytest.mark.requirement("OWN-12")


class ProjectWithOperator(PlanProject):
    def environment(self) -> dict[str, str]:
        return super().environment() | {"SHIFTBOSS_OPERATOR_TOKEN": TOKEN}

    def decide(self, name: str, operation: str, number: int = 1, **members: Any) -> str:
        """Wait until the work of a task is in review for the n-th time, and decide. Returns its
        commit."""
        wait_until(
            lambda: self.log().count(f"{name}: in review: ") >= number, f"{name} is in review", 60
        )
        address = self.log().rpartition(" at ")[2].split()[0]
        answer = httpx2.post(
            f"{address}/operator/{operation}",
            json={"swarm_id": "review", "bead_id": name, **members},
            headers={"Shiftboss-Operator": TOKEN},
            timeout=60,
        )
        assert answer.status_code == 200, answer.text
        return str(answer.json()["commit"])


class Terminal:
    """`shiftboss run` on a terminal. `seen` is what it has shown so far."""

    def __init__(self, project: PlanProject) -> None:
        self._mine, its = pty.openpty()
        self.seen = ""
        arguments = ["run", "plan.yaml", "--own-server", "--trees", str(project.trees)]
        self._process = start_python(
            ["-m", "shiftboss.cli.main", *arguments],
            environment=project.environment() | {"TERM": "xterm", "COLUMNS": "200"},
            folder=project.folder,
            stdin=its,
            stdout=its,
            stderr=its,
        )
        os.close(its)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        os.close(self._mine)

    def wait_for(self, text: str) -> None:
        deadline = time.monotonic() + SECONDS
        while text not in self.seen:
            assert self._read_until(deadline), f"no {text!r} in {self.seen[-3000:]}"

    def type(self, text: str) -> None:
        os.write(self._mine, text.encode())

    def exit_code(self) -> int:
        deadline = time.monotonic() + SECONDS
        while self._read_until(deadline):
            pass
        code: int = self._process.wait()
        return code

    def _read_until(self, deadline: float) -> bool:
        """False at the end of the output, or at the deadline."""
        ready, _, _ = select.select([self._mine], [], [], max(deadline - time.monotonic(), 0))
        try:
            data = os.read(self._mine, 65536) if ready else b""
        except OSError:  # Linux: the other side is closed
            return False
        self.seen += data.decode(errors="replace")
        return bool(data)


@pytest.fixture
def project(tmp_path: Path) -> ProjectWithOperator:
    return ProjectWithOperator(tmp_path)


def test_a_run_stays_until_its_questions_are_answered_and_ends_what_is_cancelled(
    project: PlanProject,
) -> None:
    """One agent asks and exits; another hangs and is cancelled, with a task that depends on it."""
    project.plan(
        task("unsure", do="ask"),
        task("slow", do="hang deaf"),
        task("after", "slow"),
        swarm="day",
        workers=2,
        attempts=1,
    )
    run = project.start()
    agent = project.wait_for_agent("slow.1")
    with project.running_client() as client:
        client.post("/bus/cancel_task", {"swarm_id": "day", "bead_id": "slow", "reason": "rethink"})
        wait_until(lambda: not psutil.pid_exists(agent), "the agent is ended", 30)
        wait_until(lambda: "asks question 1" in project.log(), "the run shows the question", 60)
        client.post("/bus/answer_question", {"swarm_id": "day", "question_id": 1, "answer": "blue"})
    outcome = run.outcome()
    assert (outcome["landed"], outcome["cancelled"]) == (["unsure"], ["slow"])
    assert (outcome["failed"], outcome["waiting"]) == ([], ["after"])
    assert "it waits for slow, which is cancelled" in outcome["stuck"]["after"]
    log = project.log()
    assert "slow: cancelled by the operator: rethink" in log
    assert log.count("slow: cancelled by") == 1
    project.plan(task("unsure", do="ask"), task("slow", do="hang deaf"), swarm="day")
    again = project.run()
    assert again["done"], "a plan whose tasks have landed or were cancelled is done"
    assert again["cancelled"] == ["slow"]


@pytest.mark.requirement("OWN-15")
def test_a_task_whose_contract_is_disputed_lands_after_the_operators_decision(
    project: PlanProject,
) -> None:
    """Three agents dispute and exit, one of them after the decision. Two contracts are amended by
    the command that the run prints, the third one stands. No attempt is used up."""
    impossible = ["Command passes: false"]
    project.plan(
        task("amended", do="dispute", criteria=impossible),
        task("stayed", do="dispute-and-stay", criteria=impossible),
        task("insisted", do="dispute-and-stay"),
        swarm="odd",
        workers=3,
        attempts=1,
    )
    run = project.start()

    def command(name: str, program: str) -> list[str]:
        text = rf"{name}: blocked: \S+ disputes its contract: it cannot be met: nothing makes this"
        pattern = re.compile(rf"{text} pass \(.*?(shiftboss {program} [^;)]+)")
        wait_until(lambda: pattern.search(project.log()), f"{name} is disputed", 60)
        found = pattern.search(project.log())
        assert found is not None
        return shlex.split(found[1])[1:]

    changes = (
        "s/passes: false/passes: true/; s/expectations_change: .*/expectations_change: [a.py]/"
    )
    editor = {"EDITOR": f"sed -i '{changes}'"}
    for arguments in (
        command("amended", "handoff amend"),
        command("stayed", "handoff amend"),
        command("insisted", "questions answer"),
    ):
        variables = {**project.environment(), **editor}
        done = shiftboss(*arguments, folder=project.folder, **variables)
        assert (done.code, done.err) == (0, ""), done
    outcome = run.outcome()
    assert sorted(outcome["landed"]) == ["amended", "insisted", "stayed"], outcome
    assert outcome["failed"] == []
    runs = project.folder / ".shiftboss" / "runs" / "odd"
    for name in ("amended", "stayed"):
        prompts = "".join(file.read_text() for file in runs.glob(f"{name}.*/prompt.md"))
        assert "A PERSON SAYS: The contract has version 2 now" in prompts
        assert "MUST HOLD: Command passes: true" in prompts
        assert "EXPECTATIONS MAY CHANGE: a.py" in prompts
        handoffs = [json.loads(file.read_text()) for file in runs.glob(f"{name}.*/handoff.json")]
        assert ["a.py"] in [handoff.get("expectations_change") for handoff in handoffs]
    with project.client_after_run() as client:
        views = client.post("/bus/list_tasks", {"swarm_id": "odd"}).json()["tasks"]
    assert [(view["failures"], view["attempt"]) for view in views] == [(0, 1)] * 3

    assert sorted(project.run()["landed"]) == ["amended", "insisted", "stayed"]
    line = "the contract was amended: its version 2 is in force instead of criteria of the plan"
    for name in ("amended", "stayed"):
        assert f"{name}: {line}" in project.log()
    assert "changed in the plan" not in project.log()


def test_a_question_is_answered_at_the_terminal_of_the_run(project: PlanProject) -> None:
    project.plan(task("unsure", do="ask"), swarm="tty", attempts=1)
    with Terminal(project) as terminal:
        terminal.wait_for("your answer>")
        assert "which colour?" in terminal.seen
        terminal.type("blue\r")
        assert terminal.exit_code() == 0, terminal.seen
    assert project.landed() == ["First", "Add unsure"]
    prompts = (project.folder / ".shiftboss" / "runs" / "tty").glob("unsure.*/prompt.md")
    assert any("A PERSON SAYS: blue" in prompt.read_text() for prompt in prompts)
    assert "refused" not in project.log(), "also if the answer comes before the agent has exited"


def test_work_waits_for_its_review_and_is_done_again_after_a_rejection(
    project: ProjectWithOperator,
) -> None:
    project.plan(
        task("one", do="ignore"),
        task("two", "one"),
        swarm="review",
        review="required",
        landing="squash",
    )
    run = project.start()
    project.decide("one", "reject", reason="use another name")
    project.decide("one", "approve", number=2)
    project.decide("two", "approve")
    outcome = run.outcome()
    assert outcome["landed"] == ["one", "two"], outcome
    assert project.landed() == ["First", "Add one", "Add two"]
    refusals = [line for line in project.log().splitlines() if "refused" in line]
    assert ["rejected by operator: use another name" in line for line in refusals] == [True]
    prompt = project.folder / ".shiftboss" / "runs" / "review" / "one.2" / "prompt.md"
    assert "rejected by operator: use another name" in prompt.read_text()


def test_a_rejected_commit_is_not_merged_with_the_work_that_replaces_it(
    project: ProjectWithOperator,
) -> None:
    project.plan(task("one"), swarm="review", review="required")
    run = project.start()
    rejected = project.decide("one", "reject", reason="use another name")
    approved = project.decide("one", "approve", number=2)
    assert run.outcome()["landed"] == ["one"]
    commits = project.git("rev-list", "main").split()
    assert approved in commits
    assert rejected not in commits
    prompt = project.folder / ".shiftboss" / "runs" / "review" / "one.2" / "prompt.md"
    text = prompt.read_text()
    assert "A PERSON SAYS: use another name" in text
    assert "START OVER" in text
    assert "CONTINUE" not in text
