"""What a new worker is told, what it returns, and which model it should use; on both stores."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from shiftboss.errors import CiUnavailable, InvalidRequest, UnknownHandoff
from shiftboss.protocol.contract.contract_requests import BuildContextRequest, ContextAnswer
from shiftboss.protocol.policy import Models, TokenBudget
from shiftboss.rules.prompts.token_estimate import estimate_tokens
from tests.conformance.contract.contract_fixtures import ContractFixture, down, open_contract, runs
from tests.repos import Repo
from tests.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("CC-14")]

DONE = "DONE: alphavm CI run #89 all green, radicle-push: success"
FILES = {
    "plans/fees.plan.cspec": "1. Read the fees\n2. Charge them\n",
    "specs/auth.md": "Who may log in\n",
    "src/auth/picture.png": "\0",
    "tests/test_names.py": "def test_names(): pass\n",
}
RETURNS: dict[str, Any] = {
    "files_created": ["src/fees.py"],
    "files_modified": ["src/auth/login.py"],
    "tests_added": ["tests/test_fees.py"],
    "ci_run_id": "89",
    "summary": "Fees are calculated",
}


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """A repository with files to read and three changes to them on its branch."""
    made = Repo(tmp_path / "repo")
    made.commit("more", FILES)
    made.commit("notes", {"notes.txt": "\n"})
    return made


@pytest.fixture
async def contract(
    store_address: str, tmp_path: Path, repo: Repo
) -> AsyncIterator[ContractFixture]:
    commits = [repo.commit(f"work {number}") for number in range(2)]
    async with open_contract(store_address, tmp_path, repo, commits) as it:
        yield it


async def built(contract: ContractFixture, task: str, **members: Any) -> ContextAnswer:
    request = BuildContextRequest(swarm_id=contract.swarm_id, bead_id=task, **members)
    return await contract.coordinator.context.build_context(request)


async def spawned(contract: ContractFixture, **members: Any) -> None:
    await contract.spawn("alphavm", "src/auth/", repo="alphavm", **members)


async def test_the_context_has_required_and_recommended_parts_and_ordered_files(
    contract: ContractFixture,
) -> None:
    await spawned(contract, files_readonly=["src/lib/jwt.py"], subtask_description="Charge fees")
    made = await built(contract, "alphavm", plan_ref="plans/fees.plan.cspec")
    assert made.included == [
        "src/auth/login.py",
        "src/auth/names.py",
        "tests/test_login.py",
        "tests/test_names.py",
        "specs/auth.md",
        "plans/fees.plan.cspec",
        "history of these files",
    ]
    for words in (
        "OBJECTIVE: Title of alphavm\nCharge fees\n",
        "COMPONENT ID: alphavm\n",
        "REPO: alphavm\n",
        "PLAN REF: plans/fees.plan.cspec\n",
        "\n1. Read the fees\n",
        "IN SCOPE: src/auth/. OUT OF SCOPE: everything else; read only: src/lib/jwt.py\n",
        "\n=== src/auth/login.py\ndef login():\n",
    ):
        assert words in made.text, words
    tip = contract.repo.head()[:12]
    assert f"RECENT CHANGES: acdc-core {tip} work 1; " in made.text
    recent = next(line for line in made.text.splitlines() if line.startswith("RECENT CHANGES"))
    assert recent.count(";") == 2
    assert made.missing == ["known_issues", "parallel_workers"]
    assert made.tokens == estimate_tokens(made.text)


async def test_without_a_plan_the_contract_serves_as_the_plan(contract: ContractFixture) -> None:
    await spawned(contract)
    made = await built(contract, "alphavm")
    assert "PLAN REF: contract of alphavm, version 1\n" in made.text
    assert "# Task alphavm, contract version 1" in made.text


async def test_the_context_mentions_red_repos_open_questions_and_parallel_workers(
    contract: ContractFixture,
) -> None:
    await contract.works_on("deltavm", "w-2")
    await contract.says("deltavm", "BLOCKED: Which fee?")
    sha = await _red(contract, "alphavm")
    made = await built(contract, "alphavm")
    assert f"alphavm is red at {sha[:12]} (alphavm)" in made.text
    assert "deltavm waits for an answer: Which fee?" in made.text
    assert "PARALLEL WORKERS: deltavm: deltavm by w-2\n" in made.text
    assert made.missing == []


async def _red(contract: ContractFixture, repo: str) -> str:
    await contract.works_on(repo)
    sha = await contract.pushes(repo)
    await contract.ci_says(runs(sha, test="failure"))
    return sha


async def test_a_smaller_budget_omits_files_and_a_larger_one_is_capped(
    sqlite_path: str, tmp_path: Path, repo: Repo
) -> None:
    repo.commit("large", {"src/auth/large.py": "value = 1\n" * 3000})
    tokens = TokenBudget(context_handoff=2000)
    async with open_contract(sqlite_path, tmp_path, repo, [], tokens=tokens) as contract:
        await _budgets(contract)


async def _budgets(contract: ContractFixture) -> None:
    await spawned(contract)
    made = await built(contract, "alphavm", max_tokens=1_000_000)
    assert made.tokens <= 2000
    assert made.left_out == ["src/auth/large.py", "src/auth/picture.png"]
    small = await built(contract, "alphavm", max_tokens=made.tokens - 1)
    assert small.tokens < made.tokens
    assert small.included == [part for part in made.included if part not in small.left_out]
    with pytest.raises(InvalidRequest, match="the budget is 10"):
        await built(contract, "alphavm", max_tokens=10)


async def test_an_unknown_task_or_plan_file_is_an_error(contract: ContractFixture) -> None:
    with pytest.raises(UnknownHandoff):
        await built(contract, "nothing")
    await spawned(contract)
    for plan in ("plans/none.cspec", "src/auth/picture.png", "../../etc/passwd"):
        with pytest.raises(InvalidRequest) as caught:
            await built(contract, "alphavm", plan_ref=plan)
        assert caught.value.field == "plan_ref"


async def test_the_context_returned_with_done_becomes_the_receipts_summary(
    contract: ContractFixture,
) -> None:
    """The server claims by itself when CI is green; its claim gets the returned text."""
    await contract.works_on("alphavm")
    sha = await contract.pushes("alphavm")
    await contract.ci_says(runs(sha))
    done = asyncio.create_task(contract.says("alphavm", DONE, name="w-alphavm", returns=RETURNS))
    await eventually(lambda: _waits(contract), "DONE waits for its verdict")
    await contract.accept()
    assert (await done).status == "accepted"
    assert (await contract.receipt("alphavm"))["summary"] == (
        "Fees are calculated\nFiles created: src/fees.py\nFiles modified: src/auth/login.py\n"
        "Tests added: tests/test_fees.py\nCI run: 89"
    )


def _waits(contract: ContractFixture) -> bool:
    return (contract.swarm_id, "alphavm") in contract.coordinator._verdict_waiters._waiting


async def test_the_context_returned_with_the_push_is_used_in_the_servers_claim(
    contract: ContractFixture,
) -> None:
    await contract.works_on("alphavm")
    sha = contract.commits[0]
    line = f"PUSHED_TO_CI: alphavm commit {sha[:7]} - CI run #89"
    await contract.says("alphavm", line, returns=RETURNS)
    await contract.ci_says(runs(sha))
    await contract.accept()
    assert (await contract.receipt("alphavm"))["summary"].startswith("Fees are calculated\n")


async def test_a_returned_run_is_left_out_of_the_summary_unless_it_is_one_of_the_commit(
    contract: ContractFixture,
) -> None:
    """With the push, and with DONE while nothing is known of the CI, it cannot be refused yet."""
    await contract.works_on("alphavm")
    sha = contract.commits[0]
    line = f"PUSHED_TO_CI: alphavm commit {sha[:7]} - CI run #89"
    await contract.says("alphavm", line, returns=RETURNS | {"ci_run_id": "777"})
    await contract.ci_says(runs(sha))
    await contract.accept()
    summary = (await contract.receipt("alphavm"))["summary"]
    assert summary.startswith("Fees are calculated\n")
    assert "777" not in summary


async def test_done_is_not_recorded_while_ci_does_not_respond(contract: ContractFixture) -> None:
    await contract.works_on("alphavm")
    contract.evidence.told[await contract.pushes("alphavm")] = down()
    returns = RETURNS | {"ci_run_id": "777"}
    with pytest.raises(CiUnavailable):
        await contract.says("alphavm", DONE, name="w-alphavm", returns=returns)
    assert "777" not in ((await contract.kept("alphavm")).progress or "")


async def test_the_context_returned_with_a_red_push_is_discarded(contract: ContractFixture) -> None:
    await contract.works_on("alphavm")
    first, second = contract.commits[:2]
    line = "PUSHED_TO_CI: alphavm commit {} - CI run #89"
    await contract.says("alphavm", line.format(first[:7]), returns=RETURNS)
    await contract.ci_says(runs(first, test="failure"))
    await contract.says("alphavm", line.format(second[:7]))
    await contract.ci_says(runs(second))
    await contract.accept()
    assert (await contract.receipt("alphavm"))["summary"] == ""


async def test_no_context_is_accepted_in_the_middle_of_the_work(contract: ContractFixture) -> None:
    await contract.works_on("alphavm")
    with pytest.raises(InvalidRequest) as caught:
        await contract.says("alphavm", "WORKING: on it", returns=RETURNS)
    assert caught.value.field == "returns"


@pytest.mark.requirement("CC-17")
@pytest.mark.parametrize(
    ("traits", "model"),
    [
        ([], "claude-sonnet-4"),
        (["high_complexity"], "claude-opus-4"),
        (["critical_path"], "claude-opus-4"),
        (["security_sensitive"], "claude-opus-4"),
        (["cross_repo"], "claude-opus-4"),
    ],
)
async def test_the_traits_of_a_task_determine_its_workers_model(
    contract: ContractFixture, traits: list[str], model: str
) -> None:
    await contract.register("w")
    spawned = await contract.spawn("alphavm", repo="alphavm", traits=traits, submit=True)
    given = await contract.given("w")
    assert (spawned.model, given.model) == (model, model)
    assert (await built(contract, "alphavm")).model == model


@pytest.mark.requirement("CC-17")
async def test_the_policy_decides_which_traits_count(
    sqlite_path: str, tmp_path: Path, repo: Repo
) -> None:
    models = Models(workers="small", override="big", override_when=["security_sensitive"])
    async with open_contract(sqlite_path, tmp_path, repo, [], models=models) as contract:
        assert (
            await contract.spawn("a", repo="alphavm", traits=["critical_path"])
        ).model == "small"
        # Outside the policy no model is chosen unless it is requested.
        other = str(Repo(tmp_path / "other").path)
        assert (await contract.spawn("b", repo=other)).model is None
        asked = await contract.spawn("c", repo=other, traits=["security_sensitive"])
        assert asked.model == "big"
