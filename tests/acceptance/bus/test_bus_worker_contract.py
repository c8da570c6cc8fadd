"""BusWorker under the completion contract: milestones, CI, permissions, against a real server with
real git and local CI."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from shiftboss import BusWorker
from shiftboss.errors import ContractViolations, IllegalTransition
from shiftboss.worker.bus_task import BusTask
from tests.contract_server import WORKER, ContractServer, repo_on_main
from tests.waiting import eventually

pytestmark = pytest.mark.anyio

CI = {
    "jobs": {"test": {"run": ["grep -q good a.txt"]}, "radicle-push": {"run": ["true"]}},
    "must_succeed": ["radicle-push"],
    "poll_every": "1s",
}


class ContractWorkerSetup:
    def __init__(self, folder: Path) -> None:
        self.repo = repo_on_main(folder / "alphavm", {"a.txt": "begin\n"})
        (folder / "state").mkdir()
        self.contract_server = ContractServer(
            folder / "state",
            {"alphavm": {"path": str(self.repo.path), "ci": CI}},
            preset="completion-contract",
        )

    @asynccontextmanager
    async def task(self, **members: object) -> AsyncIterator[BusTask]:
        self.contract_server.spawn("bd-1", "alphavm", "a.txt", **members)
        self.contract_server.ask("submit_task", bead_id="bd-1")
        async with BusWorker(WORKER, server=self.contract_server.server.url) as worker:
            async for taken in worker.tasks():
                yield taken
                return

    def commit(self, text: str) -> str:
        return self.repo.commit(text, {"a.txt": f"{text}\n"})


@pytest.fixture
def setup(tmp_path: Path) -> Iterator[ContractWorkerSetup]:
    made = ContractWorkerSetup(tmp_path)
    yield made
    made.contract_server.close()


def lines(setup: ContractWorkerSetup) -> list[str]:
    return [event.data["line"] for event in setup.contract_server.events("milestone_reported")]


@pytest.mark.requirement("CC-02", "CC-17")
async def test_the_example_session_ends_with_a_receipt(setup: ContractWorkerSetup) -> None:
    async with setup.task(traits=["security_sensitive"]) as task:
        assert task.model == "claude-opus-4"
        answer = await task.working(
            "Setting up fees", substate="writing_new_code", files_modified=1, estimated_files=2
        )
        assert (answer["milestone"], answer["progress"]) == ("WORKING", "1/2 files")
        await task.pushed("alphavm", setup.commit("bad"), "1")
        red = await task.ci_result()
        assert (red["state"], red["jobs"][0]["name"]) == ("failed", "test")
        assert "$ grep -q good a.txt" in red["jobs"][0]["log_tail"]
        fixing = await task.fixing("test", "the word is wrong", attempt=1, max_attempts=5)
        assert fixing["milestone"] == "FIXING_CI"
        good = setup.commit("good")
        await task.pushed("alphavm", good, "2")
        assert (await task.ci_result())["state"] == "passed"
        receipt = await task.finished("alphavm", "2", sync_job="radicle-push")
        assert task.is_over
    shown = setup.contract_server.ask("show_receipt", bead_id="bd-1")["signed_receipt"]["receipt"]
    assert (shown["receipt_id"], shown["commit"]) == (receipt, good)
    assert setup.contract_server.ask("show_task", bead_id="bd-1")["status"] == "done"
    assert [line.split(":")[0] for line in lines(setup)] == [
        "WORKING",
        "PUSHED_TO_CI",
        "FIXING_CI",
        "PUSHED_TO_CI",
    ]


@pytest.mark.requirement("CC-14")
async def test_the_worker_context_is_fetched_over_http(setup: ContractWorkerSetup) -> None:
    setup.contract_server.spawn("bd-1", "alphavm", "a.txt")
    context = setup.contract_server.ask("build_context", bead_id="bd-1", max_tokens=3000)
    assert context["included"] == ["a.txt", "history of these files"]
    assert "\n=== a.txt\nbegin\n" in context["text"]
    assert context["tokens"] <= 3000
    nothing = setup.contract_server.ask("show_ci", bead_id="bd-1")
    assert (nothing["state"], nothing["repo"]) == ("none", "alphavm")


@pytest.mark.requirement("CC-02", "CC-09")
async def test_a_refused_report_leaves_the_task_with_its_worker(setup: ContractWorkerSetup) -> None:
    async with setup.task() as task:
        with pytest.raises(IllegalTransition):
            await task.finished("alphavm", "1", sync_job="radicle-push")
        await task.pushed("alphavm", setup.commit("bad"), "1")
        await task.ci_result()
        with pytest.raises(ContractViolations, match="test failed"):
            await task.finished("alphavm", "1", sync_job="radicle-push")
        assert not task.is_over
        await task.failed("given up")


@pytest.mark.requirement("CC-14")
async def test_a_worker_can_leave_after_its_push(setup: ContractWorkerSetup) -> None:
    returns: dict[str, Any] = {"ci_run_id": "1", "summary": "The word is right"}
    async with setup.task() as task:
        await task.pushed("alphavm", setup.commit("good"), "1", returns=returns)
    setup.contract_server.event("claim_accepted")
    shown = setup.contract_server.ask("show_receipt", bead_id="bd-1")["signed_receipt"]["receipt"]
    assert shown["summary"] == "The word is right\nCI run: 1"


@pytest.mark.requirement("CC-02")
async def test_blocked_asks_a_question_and_waits_for_the_answer(setup: ContractWorkerSetup) -> None:
    async with setup.task(blocked_contact="lead") as task:
        await task.working("on it")

        async def answer() -> None:
            def asked() -> list[dict[str, Any]]:
                found: list[dict[str, Any]] = setup.contract_server.ask("list_questions")[
                    "questions"
                ]
                return found

            await eventually(asked, "the question")
            (question,) = asked()
            assert (question["contact"], question["question"]) == ("lead", "Which word?")
            setup.contract_server.ask(
                "answer_question", question_id=question["question_id"], answer="good"
            )

        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(task.blocked("Which word?"))
            group.create_task(answer())
        assert waiting.result() == "good"
        assert (await task.working("goes on"))["milestone"] == "WORKING"
        await task.failed("enough")


@pytest.mark.requirement("CC-07")
async def test_a_worker_stops_at_the_first_denial_with_what_it_attempted(
    setup: ContractWorkerSetup,
) -> None:
    async with setup.task() as task:
        assert await task.denied("Bash", "Permission denied", "mkdir a")
        await task.blocked_permission("Bash", "Permission denied", ["write a/b.txt"])
        assert task.is_over
    (question,) = setup.contract_server.ask("list_questions")["questions"]
    assert "Attempted: mkdir a\nAttempted: write a/b.txt" in question["question"]


@pytest.mark.requirement("CC-07")
async def test_the_second_denial_of_a_tool_ends_the_work(setup: ContractWorkerSetup) -> None:
    error = "Permission to use Bash has been auto-denied"
    async with setup.task() as task:
        denials = [(await task.denied("Bash", error, "mkdir a"), task.is_over) for _ in range(2)]
    assert denials == [(True, False), (False, True)]
    shown = setup.contract_server.ask("show_task", bead_id="bd-1")
    assert shown["status"] == "failed"
    assert shown["last_error"].startswith("BLOCKED_PERMISSION: Bash - ")
    assert setup.contract_server.ask("list_questions")["questions"]
