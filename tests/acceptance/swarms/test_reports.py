"""Register, progress, complete, error: the document's lifecycle over HTTP, on both stores."""

from __future__ import annotations

import re

import pytest

from tests.acceptance.swarms.packets import (
    SWARM,
    accepted,
    complete_body,
    error_body,
    kinds,
    progress_body,
    refused,
    register_body,
    report,
    worker,
)
from tests.client import Client
from tests.running import RunningServer

WIRE_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


@pytest.fixture
def swarm(shared_any_client: Client) -> Client:
    shared_any_client.create_swarm(swarm_id=SWARM)
    return shared_any_client


@pytest.mark.requirement("SW-01")
def test_the_lifecycle_answers_with_exactly_the_documented_json(swarm: Client) -> None:
    registered = accepted(swarm, "register", register_body())
    assert WIRE_TIME.fullmatch(registered.pop("registered_at"))
    assert registered == {
        "registered": True,
        "packet_id": 1,
        "packet_name": "backend-api",
        "swarm_id": SWARM,
    }
    accepted(swarm, "register", register_body(2, packet_name="frontend"))
    accepted(swarm, "register", register_body(3, packet_name="docs"))

    progress = accepted(swarm, "progress", progress_body())
    assert WIRE_TIME.fullmatch(progress.pop("timestamp"))
    assert progress == {
        "acknowledged": True,
        "packet_id": 1,
        "task_id": "task-1",
        "tasks_completed": 1,
        "tasks_total": 10,
    }

    complete = accepted(swarm, "complete", complete_body())
    assert WIRE_TIME.fullmatch(complete.pop("completed_at"))
    assert complete == {
        "acknowledged": True,
        "packet_id": 1,
        "final_commit": "def5678901",
        "swarm_complete": False,
        "remaining_workers": 2,
    }

    assert accepted(swarm, "error", error_body(2)) == {
        "acknowledged": True,
        "packet_id": 2,
        "error_logged": True,
        "retry_scheduled": False,
        "retry_in_seconds": None,
    }


@pytest.mark.requirement("SW-01")
def test_the_last_worker_completes_the_swarm(swarm: Client) -> None:
    for packet_id in (1, 2, 3):
        accepted(swarm, "register", register_body(packet_id))
    answers = [accepted(swarm, "complete", complete_body(packet_id)) for packet_id in (3, 1, 2)]
    assert [(a["swarm_complete"], a["remaining_workers"]) for a in answers] == [
        (False, 2),
        (False, 1),
        (True, 0),
    ]
    assert kinds(swarm)[-2:] == ["worker_complete", "swarm_complete"]


@pytest.mark.requirement("SW-01")
def test_a_swarm_waits_for_the_workers_it_expects(any_client: Client) -> None:
    any_client.create_swarm(swarm_id=SWARM, workers_expected=2)
    accepted(any_client, "register", register_body(1))
    early = accepted(any_client, "complete", complete_body(1))
    assert (early["swarm_complete"], early["remaining_workers"]) == (False, 1)
    accepted(any_client, "register", register_body(2))
    late = accepted(any_client, "complete", complete_body(2))
    assert (late["swarm_complete"], late["remaining_workers"]) == (True, 0)


@pytest.mark.requirement("SW-01")
def test_a_late_worker_reopens_a_completed_swarm(swarm: Client) -> None:
    accepted(swarm, "register", register_body(1))
    assert accepted(swarm, "complete", complete_body(1))["swarm_complete"]
    accepted(swarm, "register", register_body(2))
    assert swarm.status(SWARM)["status"] == "running"
    assert accepted(swarm, "complete", complete_body(2))["swarm_complete"]


@pytest.mark.requirement("SW-07", "SW-10")
@pytest.mark.parametrize("key", [None, "k-1"])
def test_sending_a_report_twice_gives_the_same_answer_and_one_event(
    swarm: Client, key: str | None
) -> None:
    for packet_id in (1, 2):
        accepted(swarm, "register", register_body(packet_id))
    before = kinds(swarm)
    for name, body in (
        ("register", register_body()),
        ("progress", progress_body()),
        ("complete", complete_body()),
    ):
        first = accepted(swarm, name, body, key and f"{key}-{name}")
        # Reports of other workers in between do not change the answer.
        accepted(swarm, "progress", progress_body(2, task_id=name, tasks_completed=0))
        assert accepted(swarm, name, body, key and f"{key}-{name}") == first
    others = ["progress_update"] * 3
    assert sorted(kinds(swarm)) == sorted(before + others + ["progress_update", "worker_complete"])
    assert worker(swarm)["tasks_completed"] == 1


@pytest.mark.requirement("SW-07")
def test_a_late_repeat_of_an_older_report_gets_its_first_answer(swarm: Client) -> None:
    accepted(swarm, "register", register_body())
    first = accepted(swarm, "progress", progress_body())
    accepted(swarm, "progress", progress_body(task_id="task-2", tasks_completed=2))
    assert accepted(swarm, "progress", progress_body()) == first
    assert worker(swarm)["tasks_completed"] == 2


@pytest.mark.requirement("SW-07")
def test_a_lower_counter_changes_nothing_and_the_answer_says_so(swarm: Client) -> None:
    accepted(swarm, "register", register_body())
    accepted(swarm, "progress", progress_body(tasks_completed=5))
    before = swarm.status(SWARM)
    problem = refused(swarm, "progress", progress_body(task_id="t-2", tasks_completed=4), 409)
    assert (problem["code"], problem["field"]) == ("counter_regression", "tasks_completed")
    assert problem["recorded"] == 5
    assert swarm.status(SWARM) == before


@pytest.mark.requirement("SW-07")
def test_only_completed_tasks_increase_the_counter(swarm: Client) -> None:
    accepted(swarm, "register", register_body())
    for status in ("started", "failed"):
        answer = accepted(swarm, "progress", progress_body(status=status, tasks_completed=3))
        assert answer["tasks_completed"] == 0
    answer = accepted(swarm, "progress", progress_body(status="completed", tasks_completed=1))
    assert answer["tasks_completed"] == 1


@pytest.mark.requirement("SW-07")
@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("progress", progress_body(task_id="task-2")),
        ("progress", progress_body(task_name="Other")),
        ("progress", progress_body(status="failed")),
        ("progress", progress_body(tasks_completed=4)),
        ("progress", progress_body(tasks_total=11)),
        ("progress", progress_body(commit="1234567")),
        ("error", error_body()),
        ("register", register_body()),
    ],
)
def test_reusing_a_key_for_different_content_is_refused(
    swarm: Client, name: str, body: object
) -> None:
    accepted(swarm, "register", register_body())
    accepted(swarm, "progress", progress_body(), key="k")
    before = kinds(swarm)
    assert refused(swarm, name, body, 409, key="k")["code"] == "idempotency_key_reused"
    assert kinds(swarm) == before


@pytest.mark.requirement("SW-07")
@pytest.mark.parametrize("keys", [(None, "b"), ("a", None), ("a", "b")])
def test_reports_repeated_with_other_keys_get_the_first_answers(
    swarm: Client, keys: tuple[str | None, str | None]
) -> None:
    reports = [
        ("register", register_body()),
        ("progress", progress_body()),
        ("progress", progress_body(task_id="task-2", tasks_completed=2)),
        ("complete", complete_body()),
    ]
    first, again = (
        [
            accepted(swarm, name, body, key and f"{key}-{number}")
            for number, (name, body) in enumerate(reports)
        ]
        for key in keys
    )
    assert again == first
    assert kinds(swarm).count("progress_update") == 2


@pytest.mark.requirement("SW-10")
def test_a_late_repeat_of_a_registration_does_not_revive_a_failed_packet(swarm: Client) -> None:
    first = accepted(swarm, "register", register_body(), key="r")
    accepted(swarm, "error", error_body())
    assert accepted(swarm, "register", register_body(), key="r") == first
    assert (worker(swarm)["status"], worker(swarm)["attempt"]) == ("failed", 1)


@pytest.mark.requirement("SW-10")
def test_a_worker_can_register_again_with_a_changed_total(swarm: Client) -> None:
    first = accepted(swarm, "register", register_body())
    accepted(swarm, "progress", progress_body(tasks_total=5))
    assert accepted(swarm, "register", register_body()) == first
    assert worker(swarm)["tasks_total"] == 5


@pytest.mark.requirement("SW-01")
def test_completing_with_unreported_tasks_is_accepted_and_shows_both_numbers(swarm: Client) -> None:
    accepted(swarm, "register", register_body())
    accepted(swarm, "progress", progress_body())
    accepted(swarm, "complete", complete_body())
    found = worker(swarm)
    assert (found["status"], found["tasks_completed"], found["tasks_total"]) == ("complete", 1, 10)


@pytest.mark.requirement("SW-01")
def test_a_complete_packet_accepts_no_more_progress_and_no_other_completion(swarm: Client) -> None:
    accepted(swarm, "register", register_body())
    accepted(swarm, "complete", complete_body())
    before = swarm.status(SWARM)
    for name, body in (
        ("progress", progress_body(task_id="more")),
        ("complete", complete_body(final_commit="0000000")),
    ):
        assert refused(swarm, name, body, 409)["code"] == "packet_finished"
    assert swarm.status(SWARM) == before


@pytest.mark.requirement("SW-01", "SW-02")
def test_an_error_after_completion_is_logged_and_the_packet_stays_complete(swarm: Client) -> None:
    accepted(swarm, "register", register_body())
    accepted(swarm, "complete", complete_body())
    answer = accepted(swarm, "error", error_body(error_type="network_error", recoverable=True))
    assert answer["error_logged"]
    assert not answer["retry_scheduled"]
    assert worker(swarm)["status"] == "complete"
    assert kinds(swarm)[-1] == "worker_error"


@pytest.mark.requirement("SW-10")
def test_registering_again_after_a_failure_starts_a_fresh_attempt(swarm: Client) -> None:
    accepted(swarm, "register", register_body())
    accepted(swarm, "progress", progress_body())
    accepted(swarm, "error", error_body())
    assert worker(swarm)["status"] == "failed"
    assert refused(swarm, "progress", progress_body(task_id="t"), 409)["code"] == "packet_finished"
    accepted(swarm, "register", register_body(worktree="/another/tree"))
    found = worker(swarm)
    assert (found["status"], found["attempt"], found["tasks_completed"]) == ("registered", 2, 0)
    # The same report as in the first attempt is not a repeat.
    assert accepted(swarm, "progress", progress_body())["tasks_completed"] == 1
    assert kinds(swarm).count("progress_update") == 2


@pytest.mark.requirement("SW-10")
@pytest.mark.parametrize(("field", "other"), [("packet_name", "other"), ("worktree", "/other")])
def test_a_second_worker_under_the_same_packet_id_is_a_conflict(
    swarm: Client, field: str, other: object
) -> None:
    accepted(swarm, "register", register_body())
    before = swarm.status(SWARM)
    problem = refused(swarm, "register", register_body() | {field: other}, 409)
    assert (problem["code"], problem["field"]) == ("packet_conflict", field)
    assert swarm.status(SWARM) == before


@pytest.mark.requirement("SW-13")
@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("register", register_body()),
        ("progress", progress_body()),
        ("complete", complete_body()),
        ("error", error_body()),
    ],
)
def test_unknown_swarms_are_named_in_a_404(any_client: Client, name: str, body: object) -> None:
    problem = refused(any_client, name, body, 404)
    assert (problem["code"], problem["field"]) == ("unknown_swarm", "swarm_id")
    assert SWARM in problem["detail"]
    assert problem["hint"]


@pytest.mark.requirement("SW-01")
@pytest.mark.parametrize(
    ("name", "body"),
    [("progress", progress_body(7)), ("complete", complete_body(7)), ("error", error_body(7))],
)
@pytest.mark.parametrize("key", [None, "k"])
def test_unknown_packets_are_named_in_a_404(
    swarm: Client, name: str, body: object, key: str | None
) -> None:
    problem = refused(swarm, name, body, 404, key)
    assert (problem["code"], problem["field"]) == ("unknown_packet", "packet_id")
    assert kinds(swarm) == ["swarm_created"]


@pytest.mark.requirement("SW-08")
def test_a_recoverable_error_is_retried_twice_and_the_third_is_refused(swarm: Client) -> None:
    accepted(swarm, "register", register_body())
    body = error_body(error_type="network_error", recoverable=True)
    answers = [accepted(swarm, "error", body) for _ in range(3)]
    assert [(a["retry_scheduled"], a["retry_in_seconds"]) for a in answers] == [
        (True, 30),
        (True, 60),
        (False, None),
    ]
    assert worker(swarm)["status"] == "failed"


@pytest.mark.requirement("SW-08")
def test_attempts_are_counted_per_task(swarm: Client) -> None:
    accepted(swarm, "register", register_body())
    for task_id in ("a", "b", "c"):
        body = error_body(task_id=task_id, error_type="rate_limit", recoverable=True)
        assert accepted(swarm, "error", body)["retry_in_seconds"] == 30
    assert [(r["task_id"], r["attempt"], r["state"]) for r in worker(swarm)["retries"]] == [
        ("a", 1, "scheduled"),
        ("b", 1, "scheduled"),
        ("c", 1, "scheduled"),
    ]


@pytest.mark.requirement("SW-08")
def test_an_error_delivered_twice_under_one_key_counts_once(swarm: Client) -> None:
    accepted(swarm, "register", register_body())
    body = error_body(error_type="network_error", recoverable=True)
    first = accepted(swarm, "error", body, key="e-1")
    assert accepted(swarm, "error", body, key="e-1") == first
    assert accepted(swarm, "error", body, key="e-2")["retry_in_seconds"] == 60
    assert kinds(swarm).count("worker_error") == 2


@pytest.mark.requirement("SW-08")
def test_known_error_types_override_the_recoverable_flag_and_unknown_ones_follow_it(
    swarm: Client,
) -> None:
    cases = [
        ("network_error", False, True),
        ("test_failure", True, False),
        ("alien", True, True),
        ("alien", False, False),
    ]
    for packet_id, (error_type, flag, scheduled) in enumerate(cases, 1):
        accepted(swarm, "register", register_body(packet_id))
        body = error_body(packet_id, error_type=error_type, recoverable=flag)
        assert accepted(swarm, "error", body)["retry_scheduled"] is scheduled
        expected = "running" if scheduled else "failed"
        assert worker(swarm, packet_id)["status"] == expected


@pytest.mark.requirement("SW-08")
def test_progress_on_a_task_closes_its_retry(swarm: Client) -> None:
    accepted(swarm, "register", register_body())
    for task_id in ("a", "b"):
        accepted(swarm, "error", error_body(task_id=task_id, error_type="test_flake"))
    # Other reports of the worker do not cancel the promised retry.
    accepted(swarm, "progress", progress_body(task_id="a", status="failed", tasks_completed=0))
    assert [r["task_id"] for r in worker(swarm)["retries"]] == ["a", "b"]
    accepted(swarm, "progress", progress_body(task_id="a", status="started", tasks_completed=0))
    assert [r["task_id"] for r in worker(swarm)["retries"]] == ["b"]
    accepted(swarm, "complete", complete_body())
    assert worker(swarm)["retries"] == []


@pytest.mark.requirement("SW-12", "SW-13")
def test_status_shows_actual_counts_and_readiness(swarm: Client) -> None:
    empty = swarm.status(SWARM)
    assert (empty["status"], empty["workers_registered"], empty["workers"]) == ("created", 0, [])
    for packet_id in (1, 2, 3):
        accepted(swarm, "register", register_body(packet_id))
    accepted(swarm, "progress", progress_body(1))
    accepted(swarm, "complete", complete_body(2))
    accepted(swarm, "error", error_body(3))
    status = swarm.status(SWARM)
    assert {
        name: status[name]
        for name in (
            "status",
            "workers_registered",
            "workers_running",
            "workers_complete",
            "workers_failed",
            "remaining_workers",
            "tasks_completed",
            "tasks_total",
            "ready_for_merge",
        )
    } == {
        "status": "running",
        "workers_registered": 3,
        "workers_running": 1,
        "workers_complete": 1,
        "workers_failed": 1,
        "remaining_workers": 2,
        "tasks_completed": 1,
        "tasks_total": 30,
        "ready_for_merge": False,
    }
    assert [(w["packet_id"], w["status"]) for w in status["workers"]] == [
        (1, "running"),
        (2, "complete"),
        (3, "failed"),
    ]
    assert status["last_event_id"] == len(kinds(swarm))


@pytest.mark.requirement("SW-12")
@pytest.mark.parametrize(
    ("tests_passed", "review_passed", "ready"),
    [(True, True, True), (False, True, False), (True, False, False)],
)
def test_ready_for_merge_needs_tests_and_review_of_every_worker(
    swarm: Client, tests_passed: bool, review_passed: bool, ready: bool
) -> None:
    accepted(swarm, "register", register_body(1))
    accepted(swarm, "register", register_body(2))
    accepted(swarm, "complete", complete_body(1))
    body = complete_body(2, tests_passed=tests_passed, review_passed=review_passed)
    assert accepted(swarm, "complete", body)["swarm_complete"]
    status = swarm.status(SWARM)
    assert (status["status"], status["ready_for_merge"]) == ("complete", ready)


@pytest.mark.requirement("SW-13")
def test_creating_a_swarm_again_returns_it_unless_its_settings_conflict(
    any_client: Client,
) -> None:
    body = {"swarm_id": SWARM, "feature": "login", "auto_merge": True}
    first = any_client.post("/swarm/create", body)
    assert first.status_code == 201
    assert first.json()["endpoint"].endswith(f"/swarm/{SWARM}")
    assert any_client.post("/swarm/create", body).json() == first.json()
    other = any_client.post("/swarm/create", body | {"feature": "logout"})
    assert (other.status_code, other.json()["code"]) == (409, "swarm_exists")
    assert kinds(any_client) == ["swarm_created"]


@pytest.mark.requirement("SW-13")
def test_swarms_created_without_an_id_get_different_ids(any_client: Client) -> None:
    made = {any_client.create_swarm() for _ in range(3)}
    assert len(made) == 3
    listed: list[str] = []
    before: dict[str, str | int] = {}
    for _ in range(4):
        page = any_client.get("/swarms", limit=1, **before).json()
        listed += [swarm["swarm_id"] for swarm in page["swarms"]]
        if page["next_before"] is None:
            break
        before = {"before": page["next_before"]}
    assert (set(listed), len(listed)) == (made, 3)


@pytest.mark.requirement("SW-01")
def test_a_restart_forgets_nothing(any_client: Client, any_server: RunningServer) -> None:
    swarm = any_client
    swarm.create_swarm(swarm_id=SWARM)
    accepted(swarm, "register", register_body())
    accepted(swarm, "progress", progress_body())
    accepted(swarm, "error", error_body(error_type="rate_limit"))
    before, events = swarm.status(SWARM), swarm.stored_events(SWARM)
    any_server.stop()
    any_server.start()
    assert swarm.status(SWARM) == before
    assert swarm.stored_events(SWARM) == events
    assert report(swarm, "register", register_body()).status_code == 200
