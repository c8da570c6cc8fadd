"""What only the operator may do, and what no answer shows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.bus.bus import ask
from tests.acceptance.handoffs.handoffs import Operator, all_text, complete, greedy, honest
from tests.acceptance.mcp.mcp_clients import connected
from tests.client import Client
from tests.repos import Repo
from tests.running import RunningServer

SECRET = "a-secret-of-the-environment"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    running = RunningServer(tmp_path_factory.mktemp("operator") / "shiftboss.db")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SHIFTBOSS_OPERATOR_TOKEN", SECRET)
        running.start()
    try:
        yield running
    finally:
        running.close()


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return Repo(tmp_path / "repo")


@pytest.fixture
def operator(server: RunningServer) -> Operator:
    return Operator(server)


def spawned(client: Client, repo: Repo, bead_id: str, **members: object) -> dict[str, Any]:
    return ask(
        client,
        "swarm_spawn_subtask",
        bead_id=bead_id,
        files=["src/auth/"],
        subtask_title="T",
        repo=str(repo.path),
        **({"success_criteria": ["It works"]} | members),
    )


@pytest.mark.requirement("HO-09", "OWN-02")
def test_only_the_operator_can_waive_and_the_receipt_records_it(
    server: RunningServer, client: Client, operator: Operator, repo: Repo
) -> None:
    spawned(client, repo, "waived")
    commit = greedy(repo)
    waiver = {"bead_id": "waived", "check": "scope", "subject": "README.md", "reason": "agreed"}
    for token in (b"", b"wrong", "é".encode()):
        no = operator.post("waive", waiver, token)
        assert (no.status_code, no.json()["code"]) == (403, "forbidden")
    assert client.post("/operator/waive", waiver).status_code == 403
    # Nor is there another way in.
    assert client.post("/bus/waive", waiver).status_code == 404
    flag = complete(client, "waived", waivers=[waiver])
    assert (flag.status_code, flag.json()["field"]) == (422, "waivers")
    assert complete(client, "waived").status_code == 409

    assert operator.does("waive", **waiver)["success"] is True
    yes = complete(client, "waived").json()
    assert (yes["success"], yes["commit"]) == (True, commit)
    scope = next(check for check in yes["checks"] if check["check"] == "scope")
    assert scope["outcome"] == "waived"
    receipt = ask(client, "show_receipt", bead_id="waived")["signed_receipt"]["receipt"]
    assert receipt["waivers"] == [
        {
            "check": "scope",
            "subject": "README.md",
            "reason": "agreed",
            "granted_by": "operator",
        }
    ]


@pytest.mark.anyio
@pytest.mark.requirement("HO-09")
async def test_the_operators_operations_are_not_offered_as_tools(server: RunningServer) -> None:
    async with connected(server.url, "2026-07-28") as bus:
        tools = {tool.name for tool in (await bus.client.list_tools()).tools}
    assert {"swarm_spawn_subtask", "swarm_complete", "request_scope", "swarm_plan"} <= tools
    operators = {"waive", "decide_scope", "replace_handoff", "take_claim", "report_verdict"}
    operators |= {"spawn_subtask"}
    assert not operators & tools


@pytest.mark.requirement("HO-09")
def test_the_operator_decides_what_no_rule_grants(
    server: RunningServer, client: Client, operator: Operator, repo: Repo
) -> None:
    ask(client, "register_worker", name="w")
    spawned(client, repo, "scoped", submit=True)
    ask(client, "ack_task", name="w", bead_id="scoped")
    for number, granted in ((1, False), (2, True)):
        asked = ask(
            client,
            "request_scope",
            bead_id="scoped",
            paths=["Makefile"],
            reason=f"Needed, reason {number}",
        )
        assert asked["status"] == "open"
        (question,) = ask(client, "list_questions")["questions"]
        own = {"question_id": question["question_id"], "answer": "granted"}
        refused = client.post("/bus/answer_question", own)
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
        assert "shiftboss scope grant" in refused.json()["hint"]
        decided = operator.does("decide_scope", request_id=asked["request_id"], granted=granted)
        assert decided["contract_version"] == number
        (answer,) = ask(client, "poll_task", name="w", timeout_ms=0)["answers"][-1:]
        assert decided["status"] in answer["answer"]
    again = {"request_id": 2, "granted": True}
    assert operator.post("decide_scope", again, b"x").status_code == 403
    ask(client, "cancel_task", bead_id="scoped")


@pytest.mark.requirement("HO-09")
def test_the_operator_replaces_a_contract(client: Client, operator: Operator, repo: Repo) -> None:
    first = spawned(client, repo, "replaced")
    body = {
        "bead_id": "replaced",
        "files": ["docs/"],
        "repo": str(repo.path),
        "success_criteria": ["It works"],
    }
    again = client.post("/bus/swarm_spawn_subtask", body)
    assert (again.status_code, again.json()["code"]) == (409, "handoff_exists")
    second = operator.does("replace_handoff", **body)
    assert (first["contract_version"], second["contract_version"]) == (1, 2)
    ask(client, "cancel_task", bead_id="replaced")


@pytest.mark.requirement("OWN-02", "HO-05")
def test_secrets_are_never_revealed(
    server: RunningServer, client: Client, operator: Operator, repo: Repo
) -> None:
    """Not in answers, events or the log, and not to the commands of a contract."""
    state = Path(server.database).parent
    key = (state / "receipt-key.pem").read_text().splitlines()[1]
    shown = spawned(client, repo, "secret", success_criteria=["Command passes: env"])
    operator.does("waive", bead_id="secret", check="scope", subject="x", reason="r")
    honest(repo)
    done = complete(client, "secret")
    assert done.json()["success"] is True
    (criterion,) = [check for check in done.json()["checks"] if check["check"] == "criterion"]
    assert "PATH=" in criterion["output_tail"]
    wrong = operator.post("waive", {"bead_id": "secret", "check": "scope"}, b"wrong")
    texts = all_text(
        shown,
        done,
        wrong,
        ask(client, "show_handoff", bead_id="secret"),
        ask(client, "show_receipt", bead_id="secret"),
        client.get("/openapi.json"),
        *(str(event.data) for event in client.stored_events("default")),
        server.log,
    )
    for secret in (operator.token, key, SECRET):
        assert len(secret) > 20
        assert secret not in texts
    for name in ("operator-token", "receipt-key.pem"):
        assert (state / name).stat().st_mode & 0o777 == 0o600
