"""Odd, deep and large JSON: an answer that names the mistake, and nothing is changed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.client import Client
from tests.running import RunningServer

pytestmark = pytest.mark.requirement("SW-06", "BUS-06")

DEEP = 100_000
TASK = '{"bead_id":"t","title":"T"%s}'
# name, body of add_task
BODIES: list[tuple[str, bytes]] = [
    ("deep lists", b"[" * DEEP),
    ("deep objects", b'{"a":' * 50_000),
    ("deep and closed", b"[" * DEEP + b"]" * DEEP),
    ("a deep member", TASK.replace("%s", ',"depends_on":' + "[" * 50_000).encode()),
    ("nothing", b""),
    ("spaces", b"   "),
    ("a byte order mark", b"\xef\xbb\xbf{}"),
    ("UTF-16", (TASK % "").encode("utf-16")),
    ("UTF-32", (TASK % "").encode("utf-32")),
    ("Latin-1", b'{"bead_id":"t","title":"\xe9"}'),
    ("an overlong slash", b'{"bead_id":"t","title":"\xc0\xaf"}'),
    ("a surrogate in UTF-8", b'{"bead_id":"t","title":"\xed\xa0\x80"}'),
    ("half a surrogate pair", b'{"bead_id":"t","title":"\\ud800"}'),
    ("a reversed surrogate pair", b'{"bead_id":"t","title":"\\udc00\\ud800"}'),
    ("an escaped NUL", b'{"bead_id":"t","title":"a\\u0000b"}'),
    ("a NUL", b'{"bead_id":"t","title":"a\x00b"}'),
    ("a NUL after it", b'{"bead_id":"t","title":"T"}\x00'),
    ("a NUL in a name", b'{"bead_id":"t","title":"T","a\\u0000b":1}'),
    ("a line end in a text", b'{"bead_id":"t","title":"a\nb"}'),
    ("two documents", b'{"bead_id":"t","title":"T"}{}'),
    ("a comment", b'{"bead_id":"t","title":"T"}//'),
    ("a comma at the end", b'{"bead_id":"t","title":"T",}'),
    ("single quotes", b"{'bead_id':'t','title':'T'}"),
    ("NaN", (TASK % ',"priority":NaN').encode()),
    ("Infinity", (TASK % ',"priority":Infinity').encode()),
    ("an infinite number", (TASK % ',"priority":1e400').encode()),
    ("a number beyond 64 bits", (TASK % (',"priority":' + "9" * 30)).encode()),
    ("a number of 100,000 digits", (TASK % (',"priority":' + "9" * 100_000)).encode()),
    ("a leading zero", (TASK % ',"priority":007').encode()),
    ("a hexadecimal number", (TASK % ',"priority":0x7').encode()),
    ("digits of another script", (TASK % ',"priority":٣').encode()),
    ("a number as text", (TASK % ',"priority":"7"').encode()),
    ("a truth as a number", (TASK % ',"priority":true').encode()),
    ("an id with a wide digit", '{"bead_id":"t１","title":"T"}'.encode()),
    ("an id with a Cyrillic letter", '{"bead_id":"tаsk","title":"T"}'.encode()),
    ("an id with a zero-width space", '{"bead_id":"t\u200b","title":"T"}'.encode()),
    ("an id with a line end", b'{"bead_id":"t\\n","title":"T"}'),
    ("an id that is a path", b'{"bead_id":"../t","title":"T"}'),
    ("an id that is an option", b'{"bead_id":"--t","title":"T"}'),
    ("an id that is SQL", b'{"bead_id":"t\';DROP TABLE tasks--","title":"T"}'),
    ("an id that is too long", b'{"bead_id":"%b","title":"T"}' % (b"t" * 100_000)),
    ("a prototype", (TASK % ',"__proto__":{"x":1}').encode()),
    ("an unknown member", (TASK % ',"is_admin":true').encode()),
    ("an empty name", (TASK % ',"":1').encode()),
    ("20,000 members", (b"{" + b",".join(b'"%d":1' % n for n in range(20_000)) + b"}")),
    ("a list", b"[]"),
    ("a text", b'"t"'),
    ("a number", b"7"),
    ("null", b"null"),
]
# The same member twice: another parser on the way may read the other one.
TWICE = b'{"bead_id":"a","title":"T","bead_id":"b"}'


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    running = RunningServer(tmp_path_factory.mktemp("json") / "shiftboss.db", rate_limit=0)
    try:
        with closing(Client(running.start().url)) as opened:
            yield opened
    finally:
        running.close()


@pytest.mark.parametrize(("name", "body"), BODIES, ids=[name for name, _ in BODIES])
def test_odd_json_changes_nothing(client: Client, name: str, body: bytes) -> None:
    for path in ("/bus/add_task", "/messages", "/swarm/default/register"):
        answer = client.post(path, body)
        problem = answer.json()
        assert (answer.status_code, problem["code"]) == (422, "invalid_request"), (name, path)
        assert problem["field"], (name, path)
    answer = client.post("/bus/send_message", b'{"message":' + body + b"}")
    assert answer.status_code == 422, name
    assert client.post("/bus/list_tasks", {}).json()["tasks"] == []


@pytest.mark.parametrize("body", [body for _, body in BODIES])
def test_odd_json_over_mcp_is_an_error_of_the_client(client: Client, body: bytes) -> None:
    call = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add_task","arguments":'
    for sent in (body, call + body + b"}}"):
        answer = client.post("/mcp", sent)
        assert answer.status_code in (200, 400, 406), answer.text
        assert b"Traceback" not in answer.content
    assert client.post("/bus/list_tasks", {}).json()["tasks"] == []


def test_of_a_member_that_is_given_twice_the_last_one_counts(client: Client) -> None:
    assert client.post("/bus/add_task", TWICE).json()["bead_id"] == "b"
    client.post("/bus/cancel_task", {"bead_id": "b"})


@pytest.mark.parametrize("timeout", [2**53 - 1, 600_001, 10**15])
def test_a_huge_timeout_counts_as_the_longest(client: Client, timeout: int) -> None:
    """The poll of a worker that is not registered ends at once, whatever it asks for."""
    answer = client.post("/bus/poll_task", {"name": "nobody", "timeout_ms": timeout})
    assert answer.status_code == 404


def test_ids_of_another_swarm_reach_nothing(client: Client) -> None:
    for swarm in ("mine", "yours"):
        client.create_swarm(swarm_id=swarm)
    mine, yours = {"swarm_id": "mine"}, {"swarm_id": "yours"}
    client.post("/bus/register_worker", {"name": "w", **yours})
    client.post("/bus/add_task", {"bead_id": "secret", "title": "T", **yours})
    client.post("/bus/submit_task", {"bead_id": "secret", **yours})
    before = client.status("yours")
    for operation, body in (
        ("show_task", {"bead_id": "secret"}),
        ("ack_task", {"name": "w", "bead_id": "secret"}),
        ("worker_done", {"bead_id": "secret"}),
        ("task_failed", {"bead_id": "secret"}),
        ("cancel_task", {"bead_id": "secret"}),
        ("retry_task", {"bead_id": "secret"}),
        ("heartbeat", {"name": "w"}),
        ("reset_worker", {"worker_name": "w"}),
        ("poll_task", {"name": "w", "timeout_ms": 0}),
        ("show_handoff", {"bead_id": "secret"}),
        ("show_receipt", {"bead_id": "secret"}),
    ):
        assert client.post(f"/bus/{operation}", body | mine).status_code == 404, operation
    assert client.status("yours") == before


def test_a_key_of_another_request_is_no_way_to_its_answer(client: Client) -> None:
    add = {"bead_id": "keyed", "title": "T"}
    assert client.post("/bus/add_task", add, "the-key").status_code == 200
    for path, body in (
        ("/bus/add_task", add | {"title": "Another"}),
        ("/bus/add_task", add | {"bead_id": "other"}),
    ):
        answer = client.post(path, body, "the-key")
        assert (answer.status_code, answer.json()["code"]) == (409, "idempotency_key_reused")
    listed = client.post("/bus/list_tasks", {}).json()["tasks"]
    assert json.dumps(listed).count('"keyed"') == 1
