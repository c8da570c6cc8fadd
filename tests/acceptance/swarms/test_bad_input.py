"""Bad input: a clear error that names the field, and no change."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.acceptance.swarms.packets import (
    SWARM,
    accepted,
    complete_body,
    error_body,
    progress_body,
    refused,
    register_body,
)
from tests.client import Client
from tests.running import RunningServer


@pytest.fixture
def registered(shared_server: RunningServer) -> Iterator[Client]:
    """A swarm with one worker, which no request of any test may change."""
    client = Client(shared_server.url)
    try:
        yield from _unchanged(client)
    finally:
        client.close()


def _unchanged(client: Client) -> Iterator[Client]:
    client.create_swarm(swarm_id=SWARM)
    accepted(client, "register", register_body())
    before = client.status(SWARM)
    yield client
    assert client.status(SWARM) == before


BAD: list[tuple[str, dict[str, object], str]] = [
    ("register", register_body(0), "packet_id"),
    ("register", register_body(2, packet_name="../../x"), "packet_name"),
    ("register", register_body(2, tasks_total=1001), "tasks_total"),
    ("register", register_body(2, worktree="relative/tree"), "worktree"),
    ("register", register_body(2, worktree="/a/../b"), "worktree"),
    ("register", register_body(2, surprise=True), "surprise"),
    ("progress", progress_body(status="finished"), "status"),
    ("progress", progress_body(tasks_completed=11), "tasks_completed"),
    ("progress", progress_body(commit="not-a-sha"), "commit"),
    ("progress", progress_body(task_id="a\0b"), "task_id"),
    ("progress", progress_body(tasks_completed=float("nan")), "tasks_completed"),
    ("progress", progress_body(packet_id=10**300), "packet_id"),
    ("complete", complete_body(final_commit="abc123"), "final_commit"),
    ("complete", complete_body(tests_passed="yes"), "tests_passed"),
    ("error", error_body(error_type="x" * 101), "error_type"),
    ("error", error_body(message="x" * 5001), "message"),
    ("error", error_body(recoverable=None), "recoverable"),
]


@pytest.mark.requirement("SW-06")
def test_every_bad_field_is_named_and_changes_nothing(registered: Client) -> None:
    for name, body, field in BAD:
        problem = refused(registered, name, body, 422)
        assert (problem["code"], problem["field"]) == ("invalid_request", field)
        assert problem["detail"].startswith(field)


@pytest.mark.requirement("SW-06")
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"not json",
        b"[1, 2]",
        b'{"packet_id": 1',
        b"\xff\xfe{}",
        b'{"packet_name": "\xc3\x28"}',
        b'{"packet_name": "\\ud800"}',
        b"[" * 100_000,
    ],
)
def test_a_body_that_is_not_a_json_object_is_refused(registered: Client, body: bytes) -> None:
    for name in ("register", "progress", "complete", "error"):
        assert refused(registered, name, body, 422)["code"] == "invalid_request"


@pytest.mark.requirement("SW-06")
def test_a_body_of_two_megabytes_is_refused(registered: Client) -> None:
    body = error_body(message="x" * 2_000_000)
    problem = refused(registered, "error", body, 413)
    assert (problem["code"], problem["field"]) == ("body_too_large", "body")
    create = registered.post("/swarm/create", {"feature": "x" * 2_000_000})
    assert create.status_code == 413


@pytest.mark.requirement("SW-06")
def test_the_longest_legitimate_message_is_accepted(client: Client) -> None:
    client.create_swarm(swarm_id=SWARM)
    accepted(client, "register", register_body())
    # json.dumps escapes each of these to twelve characters.
    accepted(client, "error", error_body(message="\N{ROCKET}" * 5000))


@pytest.mark.requirement("SW-06", "SW-13")
@pytest.mark.parametrize(
    "swarm_id", ["a%2Fb", "..%2Fx", "%00", "a%0A", "%FF", "-", "x" * 129, "a%20b"]
)
def test_an_invalid_swarm_id_is_a_404(registered: Client, swarm_id: str) -> None:
    for answer in (
        registered.post(f"/swarm/{swarm_id}/register", register_body()),
        registered.get(f"/swarm/{swarm_id}/status"),
        registered.get(f"/swarm/{swarm_id}/events"),
    ):
        assert answer.status_code == 404
        assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.requirement("SW-06", "SW-13")
@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"swarm_id": "a/b"}, "swarm_id"),
        ({"swarm_id": ""}, "swarm_id"),
        ({"swarm_id": 5}, "swarm_id"),
        ({"feature": "x" * 2001}, "feature"),
        ({"auto_merge": "yes"}, "auto_merge"),
        ({"workers_expected": 0}, "workers_expected"),
        ({"workers_expected": 10_001}, "workers_expected"),
        ({"surprise": 1}, "surprise"),
        ([], "body"),
    ],
)
def test_a_bad_swarm_is_not_created(registered: Client, body: object, field: str) -> None:
    answer = registered.post("/swarm/create", body)
    assert (answer.status_code, answer.json()["field"]) == (422, field)
    assert len(registered.get("/swarms").json()["swarms"]) == 1


@pytest.mark.requirement("SW-13")
def test_the_settings_of_a_swarm_can_be_given_as_query_parameters(client: Client) -> None:
    """The contract's own client sends them so, with an empty body."""
    query = "feature=sign-in&manifest_path=%2Fplan.json&auto_merge=true&notify_on_complete=False"
    answer = client.post(f"/swarm/create?{query}", b"")
    assert answer.status_code == 201
    created = answer.json()
    assert (created["auto_merge"], created["notify_on_complete"]) == (True, False)
    assert client.status(created["swarm_id"])["feature"] == "sign-in"


@pytest.mark.requirement("SW-13")
def test_body_and_query_may_have_the_same_member_with_the_same_value(client: Client) -> None:
    body = {"swarm_id": SWARM, "feature": "sign-in", "auto_merge": True}
    query = "feature=sign-in&auto_merge=true&workers_expected=3"
    answer = client.post(f"/swarm/create?{query}", body)
    assert (answer.status_code, answer.json()["swarm_id"]) == (201, SWARM)
    status = client.status(SWARM)
    assert (status["feature"], status["workers_expected"]) == ("sign-in", 3)


@pytest.mark.requirement("SW-06", "SW-13")
@pytest.mark.parametrize(
    ("query", "body"),
    [
        ("feature=x&feature=y", {}),
        ("feature=x&feature=x", {}),
        ("feature=x", {"feature": "y"}),
    ],
)
def test_contradicting_parameters_create_no_swarm(
    registered: Client, query: str, body: dict[str, str]
) -> None:
    answer = registered.post(f"/swarm/create?{query}", body)
    assert (answer.status_code, answer.json()["field"]) == (422, "feature")
    assert len(registered.get("/swarms").json()["swarms"]) == 1


@pytest.mark.requirement("SW-06", "SW-13")
@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("surprise=1", "surprise"),
        ("auto_merge=perhaps", "auto_merge"),
        ("workers_expected=0", "workers_expected"),
        ("swarm_id=a%2Fb", "swarm_id"),
        ("feature=%00", "feature"),
    ],
)
def test_a_bad_query_parameter_creates_no_swarm(registered: Client, query: str, field: str) -> None:
    answer = registered.post(f"/swarm/create?{query}", b"")
    assert (answer.status_code, answer.json()["field"]) == (422, field)
    assert len(registered.get("/swarms").json()["swarms"]) == 1


@pytest.mark.requirement("SW-06")
@pytest.mark.parametrize("key", ["", "x" * 201, "tab\there"])
def test_a_bad_idempotency_key_is_refused(registered: Client, key: str) -> None:
    problem = refused(registered, "progress", progress_body(), 422, key)
    assert problem["field"] == "Idempotency-Key"


@pytest.mark.requirement("SW-09")
@pytest.mark.parametrize("since", ["-1", "x", "1.5", "", "9" * 17, "9007199254740992", "٣"])
def test_a_bad_event_id_is_refused(registered: Client, since: str) -> None:
    answer = registered.get(f"/swarm/{SWARM}/events", since_event_id=since)
    assert (answer.status_code, answer.json()["field"]) == (422, "since_event_id")


@pytest.mark.requirement("SW-13")
@pytest.mark.parametrize(
    ("parameters", "field"),
    [
        ({"limit": "0"}, "limit"),
        ({"limit": "201"}, "limit"),
        ({"limit": "99999999"}, "limit"),
        ({"limit": "0001" + "0" * 5000}, "limit"),
        ({"limit": "x"}, "limit"),
        ({"before": "x"}, "before"),
        ({"before": "9999999999999999:a"}, "before"),
    ],
)
def test_a_bad_page_is_refused(registered: Client, parameters: dict[str, str], field: str) -> None:
    answer = registered.get("/swarms", **parameters)
    assert (answer.status_code, answer.json()["field"]) == (422, field)


@pytest.mark.requirement("SW-01")
def test_wrong_methods_and_paths_get_a_problem_document(registered: Client) -> None:
    wrong_method = registered.get(f"/swarm/{SWARM}/progress")
    assert (wrong_method.status_code, wrong_method.json()["code"]) == (405, "method_not_allowed")
    wrong_path = registered.post(f"/swarm/{SWARM}/explode", {})
    assert (wrong_path.status_code, wrong_path.json()["code"]) == (404, "unknown_path")
