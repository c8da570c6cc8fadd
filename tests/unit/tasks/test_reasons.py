"""Why a task is where it is: each reason from the facts, with the command that helps."""

from __future__ import annotations

import pytest

from shiftboss.protocol.questions import Dispute
from shiftboss.protocol.states import WorkerState
from shiftboss.rules.claims.claims import Claim
from shiftboss.rules.contract.records import Halt
from shiftboss.rules.handoffs.escalations import refusal_question
from shiftboss.rules.handoffs.handoffs import ScopeRequest
from shiftboss.rules.runs.records import (
    BudgetRecord,
    Hold,
    LandingRecord,
    PlanRunRecord,
    ReviewRecord,
    SpawnRefusal,
)
from shiftboss.rules.tasks.packets import Assignment
from shiftboss.rules.tasks.reasons import TaskSituation, reasons_of
from shiftboss.rules.tasks.tasks import Question, Task, attempt_number
from shiftboss.rules.tasks.waiting import Holder

TASK = Task("s", "t", "Title", "", 0, "open", 0, None, 0, None, None, None, 0, 0)
QUEUED = TASK._replace(status="queued", queue_number=1)
ACTIVE = TASK._replace(status="active", epoch=1, worker="w")
FAILED = TASK._replace(status="failed", epoch=3, failures=3, last_error="no\nluck")
DONE = TASK._replace(status="done", epoch=1, worker="w")
HELD = Assignment("s", "t", 1, WorkerState.EXECUTING, None, "w", "", 0, 0, 0, 0, 0)
BLOCKED = HELD._replace(state=WorkerState.BLOCKED)
QUESTION = Question("s", 7, "t", 1, "w", "operator", "Which\ncolour?", 0)
SCOPE = ScopeRequest("s", 2, "t", 1, "w", ["a", "b", "c", "d"], "needed", "open", 0, None, None, 7)
CLAIM = Claim("s", "t", 1, 1, "w", "refused", 1, "{}", 0)
REVIEW = ReviewRecord("s", "t", "rcpt-1", "c" * 40, "open", 5)
LANDING = LandingRecord("s", "t", "r-1", "c" * 40, 0)
REFUSAL = SpawnRefusal("s", "t", "ownership_overlap", "x owns src/", [], 0)
HALT = Halt(4, ["core"], "CI is red", "s", "x", 0, None)
RUN = PlanRunRecord("s", "/my plans/plan.yaml", 0)


def told(facts: TaskSituation) -> list[tuple[str, str | None]]:
    return [(reason.kind, reason.command) for reason in reasons_of(facts)]


def test_each_check_that_refused_a_claim_can_be_waived() -> None:
    violations = [{"check": check, "message": "no"} for check in ("canary", "canary", "commit")]
    facts = TaskSituation(FAILED, claim=CLAIM, violations=violations)
    waive = "shiftboss waive t --swarm s --check canary --reason 'why it may fail'"
    refused = [reason for reason in reasons_of(facts) if reason.kind == "claim_refused"]
    assert [reason.also for reason in refused] == [(waive,), (), ()]


@pytest.mark.parametrize(
    "question",
    [
        QUESTION._replace(dispute=Dispute(kind="impossible", reason="no").model_dump_json()),
        QUESTION._replace(question=refusal_question("w", 3, "t", ["canary: no"])),
    ],
)
def test_a_question_about_refusals_names_the_waiver_and_no_other_reason_repeats_it(
    question: Question,
) -> None:
    violations = [{"check": "canary", "message": "no"}]
    told = [
        command
        for reason in reasons_of(
            TaskSituation(FAILED, questions=[question], claim=CLAIM, violations=violations)
        )
        for command in reason.also
        if command.startswith("shiftboss waive")
    ]
    assert told == ["shiftboss waive t --swarm s --check canary --reason 'why it may fail'"]


@pytest.mark.parametrize(
    ("facts", "reasons"),
    [
        (TaskSituation(TASK), [("not_submitted", "shiftboss task submit t --swarm s")]),
        (
            TaskSituation(TASK, run=RUN),
            [("not_running", "shiftboss run '/my plans/plan.yaml'")],
        ),
        (
            TaskSituation(TASK, run=RUN, workers=1),
            [("not_submitted", "shiftboss task show t --swarm s")],
        ),
        (
            TaskSituation(TASK, dependencies=[TASK._replace(task_id="d", status="active")]),
            [("dependency", "shiftboss why d --swarm s")],
        ),
        (
            TaskSituation(QUEUED, dependencies=[TASK._replace(task_id="d", status="failed")]),
            [("dependency", "shiftboss task retry d --swarm s")],
        ),
        (
            TaskSituation(TASK, dependencies=[TASK._replace(task_id="d", status="cancelled")]),
            [("dependency", "shiftboss task cancel t --swarm s")],
        ),
        (TaskSituation(TASK, unlanded=["d"]), [("dependency", "shiftboss why d --swarm s")]),
        (
            TaskSituation(TASK, refusal=REFUSAL, holders=[Holder("o", "x", "src/", "active")]),
            [("overlap", "shiftboss why x --swarm o")],
        ),
        (
            TaskSituation(TASK, refusal=REFUSAL, holders=[Holder("o", "x", "src/", "open")]),
            [("overlap", "shiftboss task cancel x --swarm o")],
        ),
        (
            TaskSituation(
                TASK, refusal=REFUSAL, holders=[Holder("o", "x", "it", "failed", "core")]
            ),
            [("repo_locked", "shiftboss repo release core --reason 'checked by hand'")],
        ),
        (TaskSituation(TASK, refusal=REFUSAL), [("refused_start", "shiftboss status")]),
        (
            TaskSituation(
                TASK, refusal=REFUSAL._replace(holders=[{"swarm_id": "o", "bead_id": "x"}])
            ),
            [("refused_start", "shiftboss task show t --swarm s")],
        ),
        (TaskSituation(QUEUED), [("queued", "shiftboss worker list --swarm s")]),
        (
            TaskSituation(QUEUED, run=RUN),
            [("queued", "shiftboss run '/my plans/plan.yaml'")],
        ),
        (
            TaskSituation(QUEUED, halt=HALT),
            [("halted", "shiftboss resume 4 --reason 'it is fixed'")],
        ),
        (
            TaskSituation(QUEUED, holds=[Hold("s", "", "pause", "lunch", 0, None)]),
            [("pause", "shiftboss swarm resume s")],
        ),
        (
            TaskSituation(
                QUEUED,
                holds=[Hold("s", "t", "budget", "used up", 0, None)],
                budgets={"t": BudgetRecord("s", "t", 10, 2_500_000)},
            ),
            [("budget", "shiftboss budget set --swarm s --task t --tokens 20 --dollars 5")],
        ),
        (
            TaskSituation(ACTIVE, assignment=BLOCKED, questions=[QUESTION]),
            [("question", "shiftboss questions answer 7 'your answer' --swarm s")],
        ),
        (
            TaskSituation(ACTIVE, assignment=HELD, scope_requests=[SCOPE], questions=[QUESTION]),
            [
                ("scope_request", "shiftboss scope grant 2 --swarm s"),
                ("at_work", "shiftboss task show t --swarm s"),
            ],
        ),
        (
            TaskSituation(ACTIVE, assignment=HELD, run=RUN, is_offline=True),
            [("not_running", "shiftboss run '/my plans/plan.yaml'")],
        ),
        (
            TaskSituation(ACTIVE, assignment=HELD, is_offline=True),
            [("not_running", "shiftboss serve")],
        ),
        (
            TaskSituation(ACTIVE, assignment=BLOCKED),
            [("blocked", "shiftboss task retry t --swarm s")],
        ),
        (
            TaskSituation(ACTIVE, assignment=HELD, run=RUN),
            [("at_work", "shiftboss logs t --swarm s")],
        ),
        (
            TaskSituation(ACTIVE, assignment=HELD._replace(state=WorkerState.ASSIGNED)),
            [("at_work", "shiftboss worker list --swarm s")],
        ),
        (
            TaskSituation(
                ACTIVE,
                assignment=HELD._replace(claim_id=1),
                claim=CLAIM._replace(state="taken"),
            ),
            [("claim", "shiftboss handoff show t --swarm s")],
        ),
        (
            TaskSituation(
                ACTIVE,
                assignment=HELD,
                claim=CLAIM,
                violations=[{"check": "scope", "message": "README.md is not yours"}],
            ),
            [
                ("claim_refused", "shiftboss handoff show t --swarm s"),
                ("at_work", "shiftboss task show t --swarm s"),
            ],
        ),
        (
            TaskSituation(ACTIVE, assignment=HELD, paused="core is red"),
            [
                ("contract_pause", "shiftboss repo list"),
                ("at_work", "shiftboss task show t --swarm s"),
            ],
        ),
        (TaskSituation(FAILED), [("failed", "shiftboss task retry t --swarm s")]),
        (
            TaskSituation(FAILED, run=RUN),
            [("failed", "shiftboss run '/my plans/plan.yaml' --retry")],
        ),
        (
            TaskSituation(FAILED, questions=[QUESTION]),
            [
                ("question", "shiftboss questions answer 7 'your answer' --swarm s"),
                ("failed", "shiftboss task retry t --swarm s"),
            ],
        ),
        (
            TaskSituation(TASK._replace(status="cancelled")),
            [("cancelled", "shiftboss task retry t --swarm s")],
        ),
        (TaskSituation(DONE), [("done", "shiftboss task show t --swarm s")]),
        (
            TaskSituation(DONE, landing=LANDING),
            [("not_landed", "shiftboss receipt show t --swarm s")],
        ),
        (
            TaskSituation(DONE, landing=LANDING, run=RUN, review=REVIEW),
            [("review", "shiftboss approve t --swarm s")],
        ),
        (
            TaskSituation(DONE, landing=LANDING, run=RUN),
            [("not_landed", "shiftboss land '/my plans/plan.yaml' t")],
        ),
        (
            TaskSituation(DONE, landing=LANDING._replace(target="main", landed_commit="d" * 40)),
            [("landed", "shiftboss receipt show t --swarm s")],
        ),
    ],
)
def test_each_state_has_its_reasons_and_commands(
    facts: TaskSituation, reasons: list[tuple[str, str | None]]
) -> None:
    assert told(facts) == reasons


def test_reasons_are_single_lines_that_name_what_matters() -> None:
    (question,) = reasons_of(TaskSituation(ACTIVE, assignment=BLOCKED, questions=[QUESTION]))
    assert question.text == "w asks question 7: Which colour?"
    (failed,) = reasons_of(TaskSituation(FAILED))
    assert failed.text == "it failed 3 times: no luck"
    pause = Hold("s", "", "pause", "lunch", 0, 3_600_000)
    (paused,) = reasons_of(TaskSituation(QUEUED, holds=[pause]))
    assert paused.text == "the whole swarm is paused until 1970-01-01 01:00 UTC: lunch"
    (queued,) = reasons_of(TaskSituation(QUEUED, workers=2, queue_position=3))
    assert queued.text == "it is number 3 in the queue, and all 2 workers are busy"


@pytest.mark.parametrize(
    ("task", "number"),
    [
        (TASK, 0),
        (ACTIVE, 1),
        (ACTIVE._replace(epoch=9), 1),  # interrupted eight times
        (ACTIVE._replace(epoch=9, failures=1), 2),
        (FAILED, 3),
        (QUEUED._replace(epoch=4, failures=1), 2),
    ],
)
def test_attempts_count_failures_and_not_interruptions(task: Task, number: int) -> None:
    assert attempt_number(task) == number
