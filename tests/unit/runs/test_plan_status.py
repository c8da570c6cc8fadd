"""What a run shows of the tasks that wait for a person: the reasons of the server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shiftboss.orchestrator.run.bootstrap import command_place
from shiftboss.orchestrator.run.plan_status import PlanStatus, plan_status_of
from shiftboss.rules.runs.records import WAITS_FOR_ANSWER

pytestmark = pytest.mark.requirement("OWN-11", "OWN-12")

QUESTION = {"question_id": 1, "bead_id": "t", "question": "which colour?"}
ASKS = {"kind": "question", "bead_id": "t", "text": "w asks", "command": "answer", "question_id": 1}
FILES = ASKS | {"kind": "scope_request", "command": "grant", "also": ["refuse"]}
PARKED = {"kind": "answer", "bead_id": "t", "reason": WAITS_FOR_ANSWER, "until": None}


def seen(
    status: str, *waiting: dict[str, Any], state: str | None = None, holds: Any = ()
) -> PlanStatus:
    view = {"bead_id": "t", "status": status, "state": state, "failures": 0, "last_error": None}
    return plan_status_of({"t": view}, {}, {"waiting": waiting, "holds": holds}, [QUESTION])


def test_a_question_is_shown_and_can_be_answered_inline() -> None:
    blocked = seen("active", ASKS, state="blocked")
    assert (blocked.held, blocked.questions) == ({"t": "w asks (answer)"}, [QUESTION])
    assert blocked.stage_of_held("t") == "blocked"
    assert seen("queued", ASKS, holds=[PARKED]).questions == [QUESTION]
    assert not seen("active", ASKS, state="executing").held, "its worker continues"


@pytest.mark.requirement("OWN-15")
def test_a_dispute_is_shown_and_can_be_answered_inline() -> None:
    disputes = ASKS | {"kind": "dispute", "text": "w disputes", "command": "amend"}
    for blocked in (
        seen("active", disputes, state="blocked"),
        seen("queued", disputes, holds=[PARKED]),
    ):
        assert (blocked.held, blocked.questions) == ({"t": "w disputes (amend)"}, [QUESTION])
        assert blocked.stage_of_held("t") == "blocked"


@pytest.mark.parametrize(("status", "state"), [("active", "blocked"), ("queued", None)])
def test_a_request_for_files_is_decided_and_not_answered(status: str, state: str | None) -> None:
    holds = [PARKED] if status == "queued" else []
    blocked = seen(status, FILES, state=state, holds=holds)
    assert blocked.held == {"t": "w asks (grant; or: refuse)"}
    assert blocked.questions == []
    assert blocked.stage_of_held("t") == "blocked"


def test_only_what_does_not_end_by_itself_waits_for_a_person() -> None:
    pause = {"kind": "pause", "bead_id": None, "text": "paused", "command": "resume"}
    assert seen("open", pause).held == {"t": "paused (resume)"}
    assert not seen("open", pause | {"until": 5}).held
    assert not seen("active", pause, state="executing").held


@pytest.mark.parametrize(
    ("server", "database", "command"),
    [
        (None, ".shiftboss/shiftboss.db", "answer"),
        (None, "/code/.shiftboss/shiftboss.db", "answer"),
        (None, "other dir/x.db", "SHIFTBOSS_DB='/code/shop/other dir/x.db' answer"),
        (None, "postgres://me:secret@host/db", "answer --server http://127.0.0.1:5"),
        ("http://far:7", "x.db", "answer --server http://far:7"),
    ],
)
def test_commands_of_a_run_look_where_the_run_is(
    server: str | None, database: str, command: str
) -> None:
    place = command_place(server, database, "http://127.0.0.1:5", Path("/code/shop"))
    view = {"bead_id": "t", "status": "active", "state": "blocked"}
    blocked = plan_status_of({"t": view}, {}, {"waiting": [ASKS]}, [], place)
    assert blocked.held == {"t": f"w asks ({command})"}
    text = place.render_quoted("free it: `shiftboss x`, or wait")
    assert text == f"free it: `{command.replace('answer', 'shiftboss x')}`, or wait"


def test_an_attempt_that_was_refused_decides_by_itself_whether_its_task_waits() -> None:
    view = {"bead_id": "t", "status": "active", "state": "blocked", "failures": 0}
    status = {"waiting": [ASKS]}
    assert not plan_status_of({"t": view}, {}, status, [QUESTION], deciding={"t"}).held
    parked = {"holds": [{"kind": "answer", "bead_id": "t"}], **status}
    queued = view | {"status": "queued", "state": None}
    assert plan_status_of({"t": queued}, {}, parked, [QUESTION], deciding={"t"}).held
