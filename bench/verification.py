"""What it costs to verify a claim in a large repository, without the commands of its contract, and
what others notice of it."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from statistics import median

from bench.figures import Figure
from bench.large_repo import FOLDERS, commit, git, make_repo
from bench.while_verifying import p99_ratio
from shiftboss.evidence.checks.verifier import Verifier
from shiftboss.protocol.handoffs import Contract, VerificationPolicy
from shiftboss.protocol.verdicts import Verdict, VerificationJob

CHANGED = 500
ROUNDS = 7
# It ends at once, so what is left is the checkout.
NEXT_TO_NOTHING = "Command passes: true"


def run(folder: Path, rounds: int = ROUNDS) -> list[Figure]:
    repo = folder / "large"
    base = _make_repo(repo)
    scope, whole = asyncio.run(_measure(folder / "verifier", repo, base, rounds))
    ratio = p99_ratio(folder / "beside", repo, base, NEXT_TO_NOTHING, min(rounds, 3))
    return [
        Figure("scope verification, 500 of 10,000 files", scope, "ms", at_most=300),
        Figure("fixed cost of a verification there", whole, "ms", at_most=1000),
        Figure("p99 of a report, ten claims being verified / none", ratio, "", at_most=2),
    ]


async def _measure(folder: Path, repo: Path, base: str, rounds: int) -> tuple[float, float]:
    """Medians: of all checks without a checkout, and of one with it until it is removed."""
    verifier = Verifier(folder)
    times: dict[str, list[float]] = {"it works": [], NEXT_TO_NOTHING: []}
    # The first claim of all copies the repository, once.
    _check(await verifier.verify(_job(repo, base, "it works")))
    for _ in range(rounds):
        for criterion, taken in times.items():
            started_at = time.perf_counter()
            verdict = await verifier.verify(_job(repo, base, criterion))
            await verifier.close()
            taken.append((time.perf_counter() - started_at) * 1000)
            _check(verdict)
    scope, whole = (median(taken) for taken in times.values())
    return scope, whole


def _check(verdict: Verdict) -> None:
    assert verdict.accepted, verdict.violations[:3]
    assert verdict.files_changed == CHANGED


def _job(repo: Path, base: str, criterion: str) -> VerificationJob:
    return VerificationJob(
        swarm_id="bench",
        bead_id="bd-1",
        epoch=1,
        claim_id=1,
        repo=str(repo),
        base_commit=base,
        branch="task",
        target="main",
        commit=None,
        files_touched=[],
        contract=Contract(
            task_id="bd-1",
            files_owned=["src/*/part_*.py", "src/**/new_*.py"],
            files_readonly=["docs/"],
            dependencies_completed=[],
            success_criteria=[criterion],
        ),
        contract_version=1,
        contract_hash="0" * 64,
        policy=VerificationPolicy(),
    )


def _make_repo(repo: Path) -> str:
    """10,000 files in `main`, and a branch that changes, adds and removes 500. Gives the base."""
    base = make_repo(repo)
    git(repo, "checkout", "--quiet", "-b", "task")
    for number in range(CHANGED):
        name = repo / f"src/area_{number % FOLDERS:03}/part_{number // FOLDERS:02}.py"
        if number % 10 == 0:
            name.unlink()
        elif number % 10 == 1:
            name.with_stem(f"new_{number}").write_text(f"other = {number}\n")
        else:
            name.write_text(f"changed = {number}\n" + "value = 2\n" * 30)
        if number % 50 == 49:
            commit(repo, f"step {number}")
    return base
