"""What it costs to verify a claim in a large repository, without the commands of its contract, and
how much slower reports are meanwhile."""

from __future__ import annotations

import asyncio
import subprocess
import time
from pathlib import Path
from statistics import median

from bench.figures import Figure
from bench.large_repo import FOLDERS, commit, git, make_repo
from bench.load import Load, Result
from bench.running import Server, run_load, shiftboss
from shiftboss.evidence.checks.verifier import Verifier
from shiftboss.protocol.claims.verdicts import Verdict, VerificationJob
from shiftboss.protocol.handoffs import Contract, VerificationPolicy

CHANGED = 500
ROUNDS = 7
CLAIMS = 10
CONNECTIONS = 8
REPORTS = 2400
SWARM = "bench"
# Ends at once, so that only the checkout is measured.
TRIVIAL_CRITERION = "Command passes: true"


def run(folder: Path, rounds: int = ROUNDS) -> list[Figure]:
    repo = folder / "large"
    base = _make_repo(repo)
    scope, whole = asyncio.run(_measure(folder / "verifier", repo, base, rounds))
    ratio = _p99_ratio(folder / "reports", repo, base, TRIVIAL_CRITERION, min(rounds, 3))
    return [
        Figure("scope verification, 500 of 10,000 files", scope, "ms", at_most=300),
        Figure("fixed cost of a verification there", whole, "ms", at_most=1000),
        Figure("p99 of a report, ten claims being verified / none", ratio, "", at_most=2),
    ]


async def _measure(folder: Path, repo: Path, base: str, rounds: int) -> tuple[float, float]:
    """Medians: of all checks without a checkout, and with one until it is removed."""
    verifier = Verifier(folder)
    times: dict[str, list[float]] = {"it works": [], TRIVIAL_CRITERION: []}
    # The first claim copies the repository.
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
    """10,000 files in `main`, and a branch that changes, adds and removes 500. Returns the base."""
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


def _p99_ratio(folder: Path, repo: Path, base: str, criterion: str, rounds: int) -> float:
    """The ratio of the p99 of a report, while ten claims are verified and while none is.

    `repo` has the work on branch `task`.
    """
    folder.mkdir()
    clones = [_clone(repo, folder / f"clone-{number}.git") for number in range(CLAIMS)]
    with shiftboss(folder / "bench.db") as server:
        server.prepare(SWARM, CONNECTIONS)
        ratios = []
        for number in range(rounds):
            without = _load(server, 2 * number)
            tasks = [_spawn_task(server, clone, base, criterion, number) for clone in clones]
            for task in tasks:
                server.post("/bus/swarm_complete", {"bead_id": task, "wait_ms": 0})
            during = _load(server, 2 * number + 1)
            ratios.append(during.p99_ms / without.p99_ms)
            _check_claims(server, tasks)
    return median(ratios)


def _clone(repo: Path, clone: Path) -> Path:
    """Each claim has a repository of its own, because no two tasks may own the same files."""
    subprocess.run(
        ["git", "clone", "--quiet", "--bare", "--shared", str(repo), str(clone)], check=True
    )
    return clone


def _load(server: Server, number: int) -> Result:
    return run_load(Load(server.url, SWARM, CONNECTIONS, REPORTS, number * REPORTS))


def _spawn_task(server: Server, clone: Path, base: str, criterion: str, number: int) -> str:
    task = f"{clone.stem}-{number}"
    server.post(
        "/bus/swarm_spawn_subtask",
        {
            "bead_id": task,
            "subtask_title": task,
            "files": ["src/*/part_*.py", "src/**/new_*.py"],
            "files_readonly": [],
            "success_criteria": [criterion],
            "repo": str(clone),
            "base": base,
            "branch": "task",
            "target": "main",
        },
    )
    return task


def _check_claims(server: Server, tasks: list[str]) -> None:
    """Check that the load ended first, and that every claim is accepted in the end."""
    last = server.post("/bus/show_task", {"bead_id": tasks[-1]})
    assert last["state"] == "verifying", "the claims were verified before the load was over"
    for task in tasks:
        server.post("/bus/swarm_complete", {"bead_id": task, "wait_ms": 120_000})
