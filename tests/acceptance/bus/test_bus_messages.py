"""POST /messages: messages move the current attempt along the transition table only."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.acceptance.bus.bus import ask, status_of, submitted, task
from tests.acceptance.bus.bus_calls import InSwarm, Polls, message, polling, refused, say, snapshot
from tests.client import Client
from tests.running import RunningServer

MESSAGES = "/messages"
LEGAL = {
    "assigned": ["executing"],
    "executing": ["verifying", "blocked", "waiting", "failed"],
    "verifying": ["self_review", "failed"],
    "self_review": ["complete", "executing"],
    "blocked": ["executing"],
    "waiting": ["idle"],
}
# The (message, payload) sequence that leads from an assignment to each state.
WAYS: dict[str, list[tuple[str, dict[str, object]]]] = {
    "assigned": [],
    "executing": [("progress", {})],
    "verifying": [("progress", {}), ("progress", {"state": "verifying"})],
    "self_review": [
        ("progress", {}),
        ("progress", {"state": "verifying"}),
        ("progress", {"state": "self_review"}),
    ],
    "blocked": [("progress", {}), ("blocked", {"question": "which?"})],
    "waiting": [("progress", {}), ("context_threshold", {"current_step": 3})],
}
# The state that each message requests. A complete message says that the work was verified and
# reviewed, so it stands for the whole path from executing on.
GOALS = {"blocked": "blocked", "context_threshold": "waiting", "failed": "failed"}
COMPLETE_FROM = ("executing", "verifying", "self_review")


@pytest.fixture
def offered(bus: InSwarm) -> InSwarm:
    """`t` is assigned to `w`."""
    ask(bus, "register_worker", name="w")
    submitted(bus, "t")
    return bus


@pytest.fixture
def polls(bus: InSwarm) -> Iterator[Polls]:
    with polling(bus, bus.url) as it:
        yield it


def bring_to(client: Client, state: str) -> None:
    for kind, payload in WAYS[state]:
        say(client, kind, payload=payload)
    assert task(client, "t")["state"] == state


def illegal(client: Client, body: dict[str, object], state: str) -> None:
    """Refused with the legal moves named, and without a change."""
    before = snapshot(client)
    problem = refused(client, MESSAGES, body, 409, "illegal_transition")
    assert (problem["state"], problem["legal"]) == (state, LEGAL[state])
    assert all(move in problem["hint"] for move in LEGAL[state])
    assert snapshot(client) == before


@pytest.mark.requirement("WP-05")
@pytest.mark.parametrize("state", WAYS)
def test_progress_follows_only_legal_transitions(offered: InSwarm, state: str) -> None:
    bring_to(offered, state)
    for goal in ("idle", "assigned", "complete", "failed", "blocked", "waiting"):
        # These have their own messages, or none: progress never leads to them.
        answer = offered.post(MESSAGES, message("progress", payload={"state": goal}))
        assert answer.status_code in (409, 422), answer.text
        assert task(offered, "t")["state"] == state
    moves = [one for one in ("executing", "verifying", "self_review") if one != state]
    for goal in moves:
        if goal not in LEGAL[state]:
            illegal(offered, message("progress", payload={"state": goal}), state)
    for goal in moves:
        if goal in LEGAL[state]:
            assert say(offered, "progress", payload={"state": goal})["state"] == goal
            break


@pytest.mark.requirement("WP-05")
@pytest.mark.parametrize("kind", GOALS)
@pytest.mark.parametrize("state", WAYS)
def test_messages_that_end_or_park_a_task_follow_the_transition_table(
    offered: InSwarm, state: str, kind: str
) -> None:
    bring_to(offered, state)
    body = message(kind, payload={"question": "which?"} if kind == "blocked" else {})
    if GOALS[kind] in LEGAL[state]:
        assert offered.post(MESSAGES, body).json()["state"] == GOALS[kind]
    else:
        illegal(offered, body, state)


@pytest.mark.requirement("WP-05")
@pytest.mark.parametrize("state", WAYS)
def test_a_complete_message_ends_a_started_task(offered: InSwarm, state: str) -> None:
    bring_to(offered, state)
    if state not in COMPLETE_FROM:
        illegal(offered, message("complete"), state)
        return
    answer = say(offered, "complete")
    assert (answer["state"], answer["bead_id"], answer["epoch"]) == ("complete", "t", 1)
    assert task(offered, "t")["status"] == "done"
    assert status_of(offered, "w") == "idle"


@pytest.mark.requirement("WP-05")
def test_progress_without_a_state_keeps_the_current_state(offered: InSwarm) -> None:
    for state in ("executing", "verifying", "self_review"):
        say(offered, "progress", payload={} if state == "executing" else {"state": state})
        assert say(offered, "progress", payload={"note": "still here"})["state"] == state


@pytest.mark.requirement("WP-05")
def test_a_complete_message_with_failed_verification_is_refused(offered: InSwarm) -> None:
    bring_to(offered, "executing")
    before = snapshot(offered)
    body = message("complete", verification_passed=False)
    problem = refused(offered, MESSAGES, body, 422, "invalid_request")
    assert problem["field"] == "verification_passed"
    assert snapshot(offered) == before


@pytest.mark.requirement("WP-05")
def test_a_worker_without_a_task_can_only_send_heartbeats(bus: InSwarm) -> None:
    ask(bus, "register_worker", name="w")
    assert say(bus, "heartbeat") == {
        "accepted": True,
        "worker": "w",
        "state": "idle",
        "bead_id": None,
        "epoch": None,
    }
    for kind in ("progress", "complete", "failed", "blocked", "context_threshold"):
        problem = refused(bus, MESSAGES, message(kind), 409, "illegal_transition")
        assert (problem["state"], problem["legal"]) == ("idle", ["assigned"])
    refused(bus, MESSAGES, message("heartbeat", "nobody"), 404, "unknown_worker")


@pytest.mark.requirement("WP-05")
def test_a_recoverable_failure_is_tried_three_times(offered: InSwarm) -> None:
    for epoch in (1, 2, 3):
        say(offered, "progress")
        answer = say(offered, "failed", recoverable=True, payload={"epoch": epoch})
        assert (answer["state"], answer["epoch"]) == ("failed", epoch)
    shown = task(offered, "t")
    assert (shown["status"], shown["epoch"], shown["last_error"]) == ("failed", 3, "boom")


@pytest.mark.requirement("WP-05")
def test_an_orchestrator_can_assign_a_task_past_the_queue(bus: InSwarm) -> None:
    for name in ("v", "w"):
        ask(bus, "register_worker", name=name)
    for name in ("t", "u"):
        ask(bus, "add_task", bead_id=name, title=name)
    answer = say(bus, "assign")
    assert (answer["state"], answer["bead_id"], answer["epoch"]) == ("assigned", "t", 1)
    assert ask(bus, "poll_task", name="v", timeout_ms=0)["task"] is None
    illegal(bus, message("assign", task_id="u"), "assigned")
    refused(bus, MESSAGES, message("assign", "v"), 409, "not_held")
    refused(bus, MESSAGES, message("assign", "v", task_id="none"), 404, "unknown_task")
    for seconds in (0, -1, 10**9):
        body = message("assign", "v", task_id="u", timeout_seconds=seconds)
        problem = refused(bus, MESSAGES, body, 422, "invalid_request")
        assert problem["field"] == "timeout_seconds"


@pytest.mark.requirement("WP-01", "WP-05")
@pytest.mark.parametrize(
    ("body", "field"),
    [
        (message("progress", payload={"state": "flying"}), "payload.state"),
        (message("progress", payload={"state": 7}), "payload.state"),
        (message("progress", payload={"commit": "HEAD"}), "payload.commit"),
        (message("progress", payload={"commit": 1234567}), "payload.commit"),
        (message("progress", payload={"commit": "abc1234\n"}), "payload.commit"),
        (message("progress", payload={"epoch": "1"}), "payload.epoch"),
        (message("progress", payload={"epoch": True}), "payload.epoch"),
        (message("blocked"), "payload.question"),
        (message("blocked", payload={"question": ""}), "payload.question"),
        (message("blocked", payload={"question": ["?"]}), "payload.question"),
        (message("blocked", payload={"question": "?", "contact": 3}), "payload.contact"),
        (message("heartbeat", context_usage=1.01), "context_usage"),
        (message("heartbeat", context_usage=-0.1), "context_usage"),
        (message("heartbeat", context_usage="0.5"), "context_usage"),
        (message("progress", extra=1), "extra"),
        (message("progress", payload=[]), "payload"),
        (message("progress", type="shout"), "type"),
        (message("progress", timestamp="soon"), "timestamp"),
        (message("progress", payload={"note": "\0"}), "body"),
    ],
)
def test_an_invalid_message_is_refused_by_field(
    offered: InSwarm, body: dict[str, object], field: str
) -> None:
    bring_to(offered, "executing")
    before = snapshot(offered)
    assert refused(offered, MESSAGES, body, 422, "invalid_request")["field"] == field
    assert snapshot(offered) == before


@pytest.mark.requirement("WP-05")
def test_a_message_about_another_task_or_attempt_is_refused(offered: InSwarm) -> None:
    bring_to(offered, "executing")
    before = snapshot(offered)
    refused(offered, MESSAGES, message("complete", task_id="u"), 409, "not_held")
    refused(offered, MESSAGES, message("progress", payload={"task_id": "u"}), 409, "not_held")
    refused(offered, MESSAGES, message("progress", payload={"epoch": 2}), 409, "stale_epoch")
    assert snapshot(offered) == before


@pytest.mark.requirement("WP-05")
def test_a_message_repeated_with_its_key_counts_once(offered: InSwarm) -> None:
    bring_to(offered, "executing")
    for kind, payload in (
        ("progress", {"commit": "abc1234"}),
        ("blocked", {"question": "which?"}),
        ("progress", {"state": "executing"}),
        ("complete", {}),
    ):
        body, key = message(kind, payload=payload), f"{kind}-{len(payload)}-{payload}"
        first = offered.post(MESSAGES, body, key).json()
        before = snapshot(offered)
        again = offered.post(MESSAGES, body, key)
        assert again.status_code == 200, again.text
        for name in ("state", "bead_id", "epoch", "question_id"):
            assert again.json().get(name) == first.get(name)
        assert snapshot(offered) == before
    kinds = offered.kinds()
    assert [kinds.count(one) for one in ("task_progress", "question_asked", "task_done")] == [
        3,
        1,
        1,
    ]


@pytest.mark.requirement("WP-05", "BUS-09")
def test_reusing_the_key_of_another_worker_attempt_or_message_is_refused(
    offered: InSwarm,
) -> None:
    assert offered.post(MESSAGES, message("progress"), "k").status_code == 200
    assert offered.post(MESSAGES, message("failed", recoverable=True), "k").status_code == 200
    assert task(offered, "t")["epoch"] == 2
    refused(offered, MESSAGES, message("progress"), 409, "idempotency_key_reused", "k")
    say(offered, "progress")
    ask(offered, "register_worker", name="v")
    ask(offered, "retry_task", bead_id="t")
    body = message("progress", "v")
    refused(offered, MESSAGES, body, 409, "idempotency_key_reused", "k")
    assert task(offered, "t")["state"] == "assigned"
    assert offered.post(MESSAGES, message("complete", "v"), "k").status_code == 409
    say(offered, "progress", "v")
    assert offered.post(MESSAGES, message("complete", "v"), "k").status_code == 200
    assert task(offered, "t")["status"] == "done"


@pytest.mark.requirement("WP-06", "WP-03")
@pytest.mark.parametrize(("usage", "asked"), [(0.69, False), (0.70, True), (1.0, True)])
def test_a_worker_with_a_full_context_is_asked_for_a_checkpoint(
    offered: InSwarm, usage: float, asked: bool
) -> None:
    bring_to(offered, "executing")
    answer = say(offered, "heartbeat", context_usage=usage, current_step="3")
    assert answer.get("checkpoint_requested", False) is asked
    beat = ask(offered, "heartbeat", name="w", context_usage=usage)
    assert beat["checkpoint_requested"] is asked
    assert (beat["bead_id"], beat["epoch"]) == ("t", 1)


@pytest.mark.requirement("WP-06")
def test_a_fresh_worker_takes_over_a_task_with_its_checkpoint(
    any_server: RunningServer, any_client: Client
) -> None:
    ask(any_client, "register_worker", name="w")
    submitted(any_client, "t")
    say(any_client, "progress", payload={"commit": "abc1234"})
    payload = {
        "task_id": "t",
        "current_step": 3,
        "files_created": ["a.py"],
        "files_modified": ["b.py"],
        "checkpoint_ready": True,
    }
    answer = say(any_client, "context_threshold", payload=payload)
    assert (answer["state"], answer["bead_id"]) == ("waiting", "t")
    shown = task(any_client, "t")
    assert (shown["status"], shown["state"], shown["lease_expires_at"]) == (
        "queued",
        "waiting",
        None,
    )
    any_server.kill()  # the checkpoint is durable
    any_server.start()
    ask(any_client, "register_worker", name="fresh")
    delivered = ask(any_client, "poll_task", name="fresh")["task"]
    assert (delivered["bead_id"], delivered["epoch"]) == ("t", 2)
    assert delivered["checkpoint"] == payload | {
        "worker": "w",
        "epoch": 1,
        "commits": ["abc1234"],
    }
    assert status_of(any_client, "w") == "idle"
    refused(any_client, "/bus/worker_done", {"bead_id": "t", "epoch": 1}, 409, "stale_epoch")
    ask(any_client, "ack_task", name="fresh", bead_id="t")
    say(any_client, "complete", "fresh")
    assert task(any_client, "t")["status"] == "done"


@pytest.mark.requirement("WP-06")
def test_a_parked_fresh_worker_is_handed_the_checkpoint_at_once(
    offered: InSwarm, polls: Polls
) -> None:
    bring_to(offered, "executing")
    ask(offered, "register_worker", name="fresh")
    poll = polls.park("fresh")
    say(offered, "context_threshold", payload={"current_step": 3})
    delivered = poll.answer()["task"]
    assert delivered["bead_id"] == "t"
    assert delivered["checkpoint"]["current_step"] == 3
    submitted(offered, "u")  # the previous worker gets nothing until it polls again
    assert task(offered, "u")["status"] == "queued"
    assert ask(offered, "poll_task", name="w")["task"]["bead_id"] == "u"


@pytest.mark.requirement("WP-06")
def test_a_worker_waiting_with_a_full_context_can_poll_its_task_again(offered: InSwarm) -> None:
    bring_to(offered, "waiting")
    assert status_of(offered, "w") == "executing"
    refused(offered, "/bus/worker_done", {"bead_id": "t"}, 409, "not_held")
    delivered = ask(offered, "poll_task", name="w")["task"]
    assert (delivered["bead_id"], delivered["epoch"]) == ("t", 2)
    assert delivered["checkpoint"]["current_step"] == 3


@pytest.mark.requirement("WP-07")
def test_a_question_reaches_its_contact_and_the_answer_reaches_the_worker(
    any_client: Client,
) -> None:
    ask(any_client, "register_worker", name="w")
    submitted(any_client, "t")
    say(any_client, "progress")
    asked = say(
        any_client, "blocked", payload={"question": "Which database?", "contact": "architect"}
    )
    assert (asked["state"], asked["question_id"]) == ("blocked", 1)
    assert status_of(any_client, "w") == "executing"
    (question,) = ask(any_client, "list_questions")["questions"]
    assert (question["contact"], question["question"], question["bead_id"]) == (
        "architect",
        "Which database?",
        "t",
    )
    answered = ask(any_client, "answer_question", question_id=1, answer="SQLite")
    assert answered["answer"] == "SQLite"
    assert task(any_client, "t")["state"] == "executing"
    expected = [{"question_id": 1, "question": "Which database?", "answer": "SQLite"}]
    # It is delivered repeatedly, until the worker's progress shows that it has arrived.
    assert ask(any_client, "heartbeat", name="w")["answers"] == expected
    assert say(any_client, "heartbeat")["answers"] == expected
    assert ask(any_client, "poll_task", name="w") == {"task": None, "answers": expected}
    say(any_client, "progress", payload={"state": "verifying"})
    assert ask(any_client, "heartbeat", name="w")["answers"] == []
    assert ask(any_client, "poll_task", name="w", timeout_ms=0)["task"] is None
    assert ask(any_client, "list_questions")["questions"] == []
    assert len(ask(any_client, "list_questions", only_open=False)["questions"]) == 1


@pytest.mark.requirement("WP-07", "BUS-03")
def test_an_answer_wakes_the_poll_of_a_blocked_worker(offered: InSwarm, polls: Polls) -> None:
    bring_to(offered, "blocked")
    poll = polls.start("w")
    ask(offered, "answer_question", question_id=1, answer="this")
    expected = [{"question_id": 1, "question": "which?", "answer": "this"}]
    assert poll.answer() == {"task": None, "answers": expected}


@pytest.mark.requirement("WP-07")
def test_a_second_question_waits_for_its_own_answer(offered: InSwarm, polls: Polls) -> None:
    bring_to(offered, "blocked")
    ask(offered, "answer_question", question_id=1, answer="this")
    second = say(offered, "blocked", payload={"question": "and now?"})
    assert second["question_id"] == 2
    assert "answers" not in second
    poll = polls.start("w")
    assert ask(offered, "poll_task", name="w", timeout_ms=1) == {"task": None, "timeout": True}
    ask(offered, "answer_question", question_id=2, answer="that")
    assert [one["answer"] for one in poll.answer()["answers"]] == ["that"]


@pytest.mark.requirement("WP-07")
def test_a_question_can_be_answered_only_once(offered: InSwarm) -> None:
    bring_to(offered, "blocked")
    first = ask(offered, "answer_question", question_id=1, answer="this")
    assert ask(offered, "answer_question", question_id=1, answer="this") == first
    path = "/bus/answer_question"
    body = {"question_id": 1, "answer": "that"}
    assert refused(offered, path, body, 409, "already_answered")["answer"] == "this"
    refused(offered, path, {"question_id": 2, "answer": "x"}, 404, "unknown_question")
    assert offered.kinds().count("question_answered") == 1


@pytest.mark.requirement("WP-07", "BUS-09")
def test_an_answer_to_a_lost_attempt_does_not_affect_the_next_attempt(offered: InSwarm) -> None:
    bring_to(offered, "blocked")
    ask(offered, "retry_task", bead_id="t")
    assert task(offered, "t")["state"] == "assigned"
    assert ask(offered, "list_questions")["questions"] == []
    late = {"question_id": 1, "answer": "late"}
    refused(offered, "/bus/answer_question", late, 409, "already_answered")
    assert task(offered, "t")["state"] == "assigned"
    assert ask(offered, "heartbeat", name="w")["answers"] == []


@pytest.mark.requirement("WP-05")
def test_a_step_that_is_too_long_is_refused_by_field(offered: InSwarm) -> None:
    bring_to(offered, "executing")
    body = message("heartbeat", "w", context_usage=0.1, current_step="x" * 501)
    assert refused(offered, MESSAGES, body, 422, "invalid_request")["field"] == "current_step"


@pytest.mark.requirement("WP-06")
@pytest.mark.parametrize(("state", "wanted"), [("executing", True), ("verifying", False)])
def test_a_checkpoint_is_requested_only_in_states_that_can_deliver_one(
    offered: InSwarm, state: str, wanted: bool
) -> None:
    bring_to(offered, state)
    answer = ask(offered, "heartbeat", name="w", context_usage=0.9)
    assert answer["checkpoint_requested"] is wanted
