"""Handoffs with a real server and a real repository: no statement of a worker makes work pass."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shiftboss.errors import ContractViolations
from shiftboss.evidence.receipt_verification import read_receipt, verify_receipt
from shiftboss.protocol.handoffs import canonical_json
from tests.acceptance.bus.bus import ask, task
from tests.acceptance.bus.bus_calls import InSwarm, message, polling, refused
from tests.acceptance.handoffs.handoffs import PASSES, complete, greedy, honest, start_over
from tests.acceptance.mcp.mcp_clients import SURFACES, Surface, connected
from tests.acceptance.worker.workers import worker_at
from tests.client import Client
from tests.repos import Repo
from tests.running import RunningServer

REFUSED = "Contract violations detected:\n"


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return Repo(tmp_path / "repo")


@pytest.fixture(scope="module")
def shared_repo(tmp_path_factory: pytest.TempPathFactory) -> Repo:
    return Repo(tmp_path_factory.mktemp("shared") / "repo")


def spawn(client: Client, repo: Repo, **members: object) -> dict[str, Any]:
    request: dict[str, object] = {
        "bead_id": "t",
        "files": ["src/auth/"],
        "subtask_title": "Give a token",
        "success_criteria": [PASSES],
        "repo": str(repo.path),
    }
    return ask(client, "swarm_spawn_subtask", **(request | members))


def given_out(client: Client, repo: Repo, **members: object) -> None:
    ask(client, "register_worker", name="w")
    spawn(client, repo, submit=True, **members)
    ask(client, "ack_task", name="w", bead_id="t")


@pytest.mark.requirement("HO-01", "CC-01")
def test_a_sha256_repository_is_refused_before_anything_is_started(
    client: Client, tmp_path: Path
) -> None:
    """Its commits could not be reported: the documents give commit ids 7 to 40 digits."""
    repo = Repo(tmp_path / "long", "sha256")
    body = {
        "bead_id": "t",
        "files": ["src/auth/"],
        "subtask_title": "T",
        "success_criteria": [PASSES],
        "repo": str(repo.path),
    }
    problem = refused(client, "/bus/swarm_spawn_subtask", body, 422, "invalid_request")
    assert problem["field"] == "repo"
    assert "uses SHA-256 commit ids" in problem["detail"]
    assert "--object-format=sha1" in problem["hint"]
    assert ask(client, "list_tasks")["tasks"] == []


@pytest.mark.requirement("HO-01")
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("base", "^main"),
        ("base", "-main"),
        ("base", "--upload-pack=x"),
        ("base", "main..main"),
        ("base", "main...main"),
        ("base", "main^@"),
        ("base", "main^!"),
        ("base", "HEAD:a.txt"),
        ("base", "nothing"),
        ("base", "main\nmain"),
        ("base", "main main"),
        ("base", "f" * 40),
        ("base", ""),
        ("branch", "^main"),
        ("branch", "main@{1}"),
        ("branch", "main..main"),
        ("target", "@{-1}"),
        ("branch", "main~1"),
        ("branch", "main:a.txt"),
        ("target", "^main"),
        ("target", "main@{0}^"),
        ("target", "*"),
    ],
)
def test_a_revision_that_names_no_commit_is_refused_by_its_field(
    bus: InSwarm, shared_repo: Repo, field: str, value: str
) -> None:
    body = {
        "bead_id": "t",
        "files": ["src/auth/"],
        "success_criteria": [PASSES],
        "repo": str(shared_repo.path),
        field: value,
    }
    problem = refused(bus, "/bus/swarm_spawn_subtask", body, 422, "invalid_request")
    assert problem["field"] == field
    assert ask(bus, "list_tasks")["tasks"] == []


@pytest.mark.requirement("HO-01", "BUS-03")
def test_the_description_of_a_task_reaches_its_worker(client: Client, repo: Repo) -> None:
    ask(client, "register_worker", name="w")
    described = {"bead_id": "t", "title": "Give a token", "description": "Sign it with RS256."}
    ask(client, "add_task", **described)
    ask(client, "add_task", bead_id="plain", title="Plain", description="Without a handoff.")
    ask(client, "submit_task", bead_id="plain")
    polled = ask(client, "poll_task", name="w")["task"]
    assert (polled["bead_id"], polled["description"]) == ("plain", "Without a handoff.")
    ask(client, "ack_task", name="w", bead_id="plain")
    ask(client, "worker_done", bead_id="plain")

    spawned = spawn(client, repo, submit=True)
    assert spawned["handoff"]["context"]["your_role"] == "Give a token"
    prompts = ask(client, "get_worker_prompt", bead_id="t")["text"], spawned["prompt"]
    polled = ask(client, "poll_task", name="w")["task"]
    shown = ask(client, "show_handoff", bead_id="t")
    for context in (
        spawned["handoff"]["context"],
        polled["handoff"]["context"],
        shown["handoff"]["context"],
        polled,
    ):
        assert context["description"] == "Sign it with RS256."
    assert all("Sign it with RS256." in prompt for prompt in (*prompts, shown["prompt"]))


@pytest.mark.requirement("HO-01")
def test_the_description_of_a_spawn_counts_where_the_task_has_another(
    client: Client, repo: Repo
) -> None:
    ask(client, "register_worker", name="w")
    ask(client, "add_task", bead_id="t", title="T", description="Of the task.")
    spawned = spawn(client, repo, subtask_description="Of the spawn.", submit=True)
    assert spawned["handoff"]["context"]["description"] == "Of the spawn."
    assert ask(client, "poll_task", name="w")["task"]["description"] == "Of the spawn."
    prompt = ask(client, "get_worker_prompt", bead_id="t")["text"]
    assert "Of the spawn." in prompt
    assert "Of the task." not in prompt
    # Adding the task is still a repeat.
    ask(client, "add_task", bead_id="t", title="T", description="Of the task.")


@pytest.mark.requirement("HO-01")
def test_a_handoff_without_a_description_has_the_documented_members_alone(
    client: Client, repo: Repo
) -> None:
    assert set(spawn(client, repo)["handoff"]["context"]) == {
        "epic_summary",
        "your_role",
        "what_others_did",
        "what_comes_next",
    }


# -- the documented calls, over every surface


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningServer, Repo]]:
    """A server that runs in a repository, which is then the default one."""
    repo = Repo(tmp_path_factory.mktemp("home") / "repo")
    server = RunningServer(tmp_path_factory.mktemp("state") / "shiftboss.db")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(repo.path)
        server.start()
    try:
        yield server, repo
    finally:
        server.close()


@pytest.mark.anyio
@pytest.mark.requirement("HO-01", "HO-03", "HO-04", "HO-05", "OWN-02")
@pytest.mark.parametrize("surface", SURFACES)
async def test_the_documented_calls_work_over_mcp(
    home: tuple[RunningServer, Repo], surface: Surface
) -> None:
    server, repo = home
    bead_id = f"bd-{surface}"
    repo.git("checkout", "--quiet", "-b", f"task-{surface}", "main")
    async with connected(server.url, surface) as bus:
        await bus.call("add_task", bead_id=f"{bead_id}.1", title="Before")
        unfinished = await bus.refused(
            "swarm_spawn_subtask",
            bead_id=bead_id,
            files=["src/auth/login.py"],
            subtask_title="Give a token",
            subtask_description="As the schema says.",
            dependencies_completed=[f"{bead_id}.1"],
        )
        assert unfinished["code"] == "dependencies_unfinished"
        spawned = await bus.call(
            "swarm_spawn_subtask",
            bead_id=bead_id,
            files=["src/auth/login.py"],
            subtask_title="Give a token",
            subtask_description=f"As the schema says.\n{PASSES}",
            dependencies_completed=[],
        )
        contract = spawned["handoff"]["contract"]
        assert contract["task_id"] == bead_id
        assert PASSES in contract["success_criteria"]
        assert len(spawned["prompt"].splitlines()) < 50

        greedy(repo)
        no = await bus.refused(
            "swarm_complete",
            bead_id=bead_id,
            files_touched=["src/auth/login.py"],
            summary="All done, all tests pass.",
        )
        assert no["code"] == "contract_violations"
        assert no["error"].startswith(REFUSED)
        assert "README.md" in no["error"]
        assert (await bus.call("show_task", bead_id=bead_id))["status"] == "active"

        start_over(repo)
        commit = honest(repo)
        yes = await bus.call(
            "swarm_complete",
            bead_id=bead_id,
            files_touched=["src/auth/login.py"],
            summary="It gives a token.",
        )
        assert (yes["success"], yes["status"], yes["commit"]) == (True, "accepted", commit)
        receipt = await bus.call("show_receipt", bead_id=bead_id)
    signed = read_receipt(canonical_json(receipt["signed_receipt"]))
    verify_receipt(signed, receipt["public_key"])
    assert (signed.receipt.commit, signed.receipt.receipt_id) == (commit, yes["receipt_id"])


@pytest.mark.requirement("HO-01", "HO-03", "HO-04", "HO-05", "OWN-02")
def test_the_documented_calls_work_over_http(bus: InSwarm, repo: Repo) -> None:
    spawned = spawn(bus, repo)
    assert (spawned["contract_version"], spawned["base_commit"]) == (1, repo.base)
    greedy(repo)
    no = complete(bus, "t", files_touched=[], summary="done")
    assert (no.status_code, no.json()["code"]) == (409, "contract_violations")
    assert no.json()["error"].startswith(REFUSED)
    assert no.json()["detail"] == no.json()["error"]
    assert [violation["path"] for violation in no.json()["violations"]] == ["README.md"]
    start_over(repo)
    commit = honest(repo)
    yes = complete(bus, "t", files_touched=[], summary="done").json()
    assert (yes["success"], yes["commit"]) == (True, commit)
    passed = [check for check in yes["checks"] if check["check"] == "criterion"]
    assert [(one["subject"], one["outcome"], one["exit_code"]) for one in passed] == [
        (PASSES, "passed", 0)
    ]
    assert task(bus, "t")["status"] == "done"
    listed = ask(bus, "list_receipts")["receipts"]
    assert yes["receipt_id"] in [one["receipt_id"] for one in listed]


@pytest.mark.requirement("HO-01")
@pytest.mark.parametrize(
    ("members", "field"),
    [
        ({"files": ["../x"]}, "files.0"),
        ({"files": ["a.py", "src/{auth,lib/*.ts"]}, "files.1"),
        ({"files": ["{a,b}" * 12]}, "files.0"),
        ({"files": [f"{{a,b}}{{c,d}}/{number}" for number in range(501)]}, "files"),
        ({"files_readonly": ["lib}/x"]}, "files_readonly.0"),
        ({"policy": {"generated": ["v{1..3}/x"]}}, "policy.generated.0"),
        ({"surprise": True}, "surprise"),
        ({"policy": {"waive": "all"}}, "policy.waive"),
    ],
)
def test_an_invalid_handoff_is_refused_by_field(
    bus: InSwarm, repo: Repo, members: dict[str, object], field: str
) -> None:
    body = {"bead_id": "t", "files": ["a.py"], "subtask_title": "T", "repo": str(repo.path)}
    problem = refused(bus, "/bus/swarm_spawn_subtask", body | members, 422, "invalid_request")
    assert problem["field"] == field
    refused(bus, "/bus/show_handoff", {"bead_id": "t"}, 404, "unknown_handoff")


@pytest.mark.requirement("HO-02", "HO-04", "HO-07")
def test_braces_in_files_are_alternatives(bus: InSwarm, repo: Repo) -> None:
    owned = ["src/{auth,lib/{jwt,keys}}/*.py", "README.md"]
    policy = {"generated": ["{uv,poetry}.lock"]}
    spawned = spawn(bus, repo, files=owned, policy=policy, success_criteria=["It works"])
    assert spawned["handoff"]["contract"]["files_owned"] == [
        "src/auth/*.py",
        "src/lib/jwt/*.py",
        "src/lib/keys/*.py",
        "README.md",
    ]
    assert ask(bus, "show_handoff", bead_id="t")["policy"]["generated"] == [
        "uv.lock",
        "poetry.lock",
    ]
    # Another task cannot have one of the alternatives.
    other = {"bead_id": "u", "files": ["src/{web,lib/jwt}/"], "subtask_title": "U"}
    problem = refused(
        bus,
        "/bus/swarm_spawn_subtask",
        other | {"repo": str(repo.path)},
        409,
        "ownership_overlap",
    )
    assert [holder["bead_id"] for holder in problem["holders"]] == ["t"]
    owners = ask(bus, "who_owns", repo=str(repo.path), files=["src/{web,auth}/x.py"])["holders"]
    assert [holder["bead_id"] for holder in owners] == ["t"]

    repo.commit("outside", {"src/lib/other/x.py": "", "src/auth/login.py": "x = 1\n"})
    no = complete(bus, "t").json()
    assert [violation["path"] for violation in no["violations"]] == ["src/lib/other/x.py"]
    start_over(repo)
    repo.commit("inside", {"src/lib/jwt/x.py": "", "src/auth/y.py": "", "poetry.lock": ""})
    assert complete(bus, "t").json()["success"] is True


@pytest.mark.requirement("HO-01", "HO-04")
def test_a_task_without_files_proves_that_it_changed_nothing(bus: InSwarm, repo: Repo) -> None:
    spawned = spawn(bus, repo, files=[], success_criteria=["Command passes: test -f README.md"])
    assert spawned["handoff"]["contract"]["files_owned"] == []
    assert "Change nothing" in spawned["prompt"]
    assert "Change only" not in spawned["prompt"]
    # It is in nobody's way.
    spawn(bus, repo, bead_id="u", files=["**"])

    repo.commit("changes", {"notes.md": "what I read\n"})
    no = complete(bus, "t").json()
    by_check = {violation["check"]: violation for violation in no["violations"]}
    assert set(by_check) == {"ancestry", "scope"}
    assert by_check["scope"]["path"] == "notes.md"
    assert "owns none" in by_check["ancestry"]["message"]
    assert repo.base in by_check["ancestry"]["hint"]
    repo.git("rm", "--quiet", "notes.md")
    repo.commit("takes it back")
    undone = complete(bus, "t").json()
    assert {violation["check"] for violation in undone["violations"]} == {"scope"}

    start_over(repo)
    repo.commit("empty")
    yes = complete(bus, "t", commit=repo.base, summary="It has no tests.").json()
    assert (yes["success"], yes["commit"]) == (True, repo.base)
    (ancestry,) = [check for check in yes["checks"] if check["check"] == "ancestry"]
    assert ancestry["message"] == "is the base itself: nothing was changed"
    receipt = ask(bus, "show_receipt", bead_id="t")["signed_receipt"]["receipt"]
    assert receipt["diff"]["changes"] == []


@pytest.mark.requirement("HO-04")
def test_an_empty_commit_is_enough_for_a_task_without_files(bus: InSwarm, repo: Repo) -> None:
    spawn(bus, repo, files=[], success_criteria=["It was read"])
    commit = repo.commit("empty")
    yes = complete(bus, "t").json()
    assert (yes["success"], yes["commit"]) == (True, commit)


@pytest.mark.requirement("HO-02")
def test_the_handoff_is_derived_from_the_repository(bus: InSwarm, repo: Repo) -> None:
    base = repo.commit(
        "set up",
        {
            "pyproject.toml": "[tool.pytest.ini_options]\n",
            "src/auth/login.py": "from src.lib import jwt\n\n\ndef login():\n    return jwt\n",
        },
    )
    spawned = spawn(bus, repo, success_criteria=[], subtask_description=f"Do it.\n{PASSES}")
    contract = spawned["handoff"]["contract"]
    assert spawned["base_commit"] == base
    assert contract["files_readonly"] == ["src/lib/jwt.py"]
    assert contract["success_criteria"][0] == PASSES
    assert any(criterion.startswith("Tests pass:") for criterion in contract["success_criteria"])


@pytest.mark.requirement("HO-04")
def test_a_worker_that_does_not_wait_can_ask_for_the_verdict_later(
    bus: InSwarm, repo: Repo
) -> None:
    spawn(bus, repo)
    greedy(repo)
    members = {"summary": "done"}
    first = complete(bus, "t", wait_ms=0, **members).json()
    assert (first["success"], first["status"], first["claim_id"]) == (False, "verifying", 1)
    no = complete(bus, "t", **members)
    assert (no.status_code, no.json()["claim_id"]) == (409, 1)
    assert bus.kinds().count("claim_made") == 1


# -- the other ways to claim work


@pytest.mark.requirement("HO-04")
def test_worker_done_is_verified_too(bus: InSwarm, repo: Repo) -> None:
    given_out(bus, repo)
    greedy(repo)
    problem = refused(bus, "/bus/worker_done", {"bead_id": "t"}, 409, "contract_violations")
    assert problem["error"].startswith(REFUSED)
    start_over(repo)
    honest(repo)
    done = ask(bus, "worker_done", bead_id="t", summary="mended")
    assert (done["success"], done["status"]) == (True, "accepted")
    assert done["receipt_id"].startswith("rcpt-")


@pytest.mark.requirement("HO-04")
def test_a_complete_message_is_verified_too(bus: InSwarm, repo: Repo) -> None:
    given_out(bus, repo)
    report = message("complete", "w", files_created=[], files_modified=["src/auth/login.py"])
    for work, kind in ((greedy, "claim_refused"), (honest, "claim_accepted")):
        start_over(repo)
        work(repo)
        with polling(bus, bus.url) as polls:
            poll = polls.start("w")
            answer = bus.post("/messages", report).json()
            assert (answer["state"], answer["bead_id"]) == ("verifying", "t")
            verdict = poll.answer()["verdict"]
        assert (verdict["kind"], verdict["claim_id"]) == (kind, answer["claim_id"])
    assert task(bus, "t")["status"] == "done"


@pytest.mark.anyio
@pytest.mark.requirement("HO-04")
async def test_a_completed_packet_is_verified_too(bus: InSwarm, repo: Repo) -> None:
    spawn(bus, repo, bead_id="packet-1")
    changes = {"swarm_id": bus.swarm_id, "tasks_total": 1}
    async with worker_at(bus.url, repo.path.parent, **changes) as worker:
        await worker.register()
        await worker.report_progress("task-1", "Login", "completed")
        cheat = greedy(repo)

        async def complete_with(commit: str) -> dict[str, Any]:
            return await worker.report_complete(commit, tests_passed=True, review_passed=True)

        with pytest.raises(ContractViolations) as no:
            await complete_once(complete_with, cheat)
        assert no.value.detail.startswith(REFUSED)
        assert bus.status(bus.swarm_id)["workers"][0]["status"] == "running"
        start_over(repo)
        done = await complete_once(complete_with, honest(repo))
        assert done["swarm_complete"] is True
    receipt = ask(bus, "show_receipt", bead_id="packet-1")["signed_receipt"]["receipt"]
    assert (receipt["worker"], receipt["commit"]) == ("backend-api", repo.head())


async def complete_once(complete_with: Any, commit: str) -> dict[str, Any]:
    """The answer of the server. On a slow machine the report waits in the outbox at first."""
    async with asyncio.timeout(60):
        while True:
            answer: dict[str, Any] = await complete_with(commit)
            if not answer.get("queued"):
                return answer


# -- overlap and scope


@pytest.mark.requirement("HO-07")
def test_overlapping_tasks_do_not_run_at_the_same_time(bus: InSwarm, repo: Repo) -> None:
    spawn(bus, repo, files=["src/**/*.py"])
    body = {"bead_id": "u", "files": ["src/auth/*.py"], "subtask_title": "U"}
    problem = refused(
        bus,
        "/bus/swarm_spawn_subtask",
        body | {"repo": str(repo.path)},
        409,
        "ownership_overlap",
    )
    (holder,) = problem["holders"]
    assert (holder["bead_id"], holder["owned"]) == ("t", "src/**/*.py")
    owners = ask(bus, "who_owns", repo=str(repo.path), files=["src/auth/"])["holders"]
    assert [one["bead_id"] for one in owners] == ["t"]
    ask(bus, "cancel_task", bead_id="t")
    assert spawn(bus, repo, **body)["contract_version"] == 1


@pytest.mark.requirement("HO-09")
def test_a_granted_file_becomes_part_of_the_contract(bus: InSwarm, repo: Repo) -> None:
    given_out(bus, repo)
    scope = {"bead_id": "t", "paths": ["README.md"], "reason": "It names the login."}
    granted = ask(bus, "request_scope", **scope)
    assert (granted["status"], granted["contract_version"]) == ("granted", 2)
    greedy(repo)
    stale = complete(bus, "t", contract_version=1)
    assert (stale.status_code, stale.json()["code"]) == (409, "stale_contract")
    yes = complete(bus, "t", contract_version=2).json()
    assert yes["success"] is True
    receipt = ask(bus, "show_receipt", bead_id="t")["signed_receipt"]["receipt"]
    assert receipt["contract"]["files_owned"] == ["src/auth/", "README.md"]


@pytest.mark.requirement("HO-08")
def test_the_next_plan_takes_earlier_outcomes_into_account(bus: InSwarm, repo: Repo) -> None:
    strategy = ask(bus, "swarm_plan", goal="Login", seed=1)["strategy"]
    spawn(bus, repo, strategy=strategy)
    greedy(repo)
    assert complete(bus, "t").status_code == 409
    rows = {row["strategy"]: row for row in ask(bus, "swarm_plan", seed=1)["strategies"]}
    assert (rows[strategy]["samples"], round(rows[strategy]["losses"], 3)) == (1, 1.0)
