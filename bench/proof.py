"""What it costs to test the tests: a claim whose criterion runs 200 tests, with canaries and
mutants at their defaults, compared with the criterion alone."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

from bench.figures import Figure
from bench.large_repo import commit, git
from shiftboss.evidence.checks.verifier import Verifier
from shiftboss.protocol.claims.verdicts import Verdict, VerificationJob
from shiftboss.protocol.handoffs import Contract, VerificationPolicy

TESTS = 200
TEST_SECONDS = 0.01
CHANGED = 10
ROUNDS = 5
COMMAND = (sys.executable, "-m", "unittest", "tests.test_prices")


def run(folder: Path, rounds: int = ROUNDS) -> list[Figure]:
    repo = folder / "prices"
    base = _make_repo(repo)
    ratio = asyncio.run(_measure(folder / "proof", repo, base, rounds))
    return [Figure("verdict of 200 tests of 10 ms / the tests alone", ratio, "", at_most=3)]


async def _measure(folder: Path, repo: Path, base: str, rounds: int) -> float:
    """The median of the ratios. Both sides are measured in turns."""
    verifier = Verifier(folder)
    # The first claim copies the repository, and runs the tests at the base.
    _check(await verifier.verify(_job(repo, base)))
    ratios = []
    for _ in range(rounds):
        alone = await asyncio.to_thread(_run_tests, repo)
        started_at = time.perf_counter()
        verdict = await verifier.verify(_job(repo, base))
        ratios.append((time.perf_counter() - started_at) / alone)
        _check(verdict)
    await verifier.close()
    return median(ratios)


def _run_tests(repo: Path) -> float:
    started_at = time.perf_counter()
    subprocess.run(COMMAND, cwd=repo, check=True, capture_output=True)
    return time.perf_counter() - started_at


def _check(verdict: Verdict) -> None:
    assert verdict.accepted, verdict.violations[:3]
    made = {check.check for check in verdict.checks if check.outcome == "passed"}
    assert {"criterion", "canary", "mutants"} <= made, "canaries and mutants were not run"


def _job(repo: Path, base: str) -> VerificationJob:
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
            files_owned=["prices.py"],
            files_readonly=["tests/"],
            dependencies_completed=[],
            success_criteria=[f"Tests pass: {' '.join(COMMAND)}"],
        ),
        contract_version=1,
        contract_hash="0" * 64,
        policy=VerificationPolicy(),
    )


def _make_repo(repo: Path) -> str:
    """Functions and their tests in `main`, and a branch that rewrites ten functions. Returns the
    base."""
    (repo / "tests").mkdir(parents=True)
    git(repo, "init", "--quiet", "--initial-branch=main")
    (repo / "tests/__init__.py").touch()
    (repo / "tests/test_prices.py").write_text(_tests())
    (repo / "prices.py").write_text("".join(map(_function, range(TESTS))))
    commit(repo, "base")
    base = git(repo, "rev-parse", "HEAD")
    git(repo, "checkout", "--quiet", "-b", "task")
    functions = [_rewritten(number) for number in range(CHANGED)]
    functions += map(_function, range(CHANGED, TESTS))
    (repo / "prices.py").write_text("".join(functions))
    commit(repo, "work")
    return base


def _function(number: int) -> str:
    return f"def price_{number}(count):\n    return count * {number + 2}\n\n\n"


def _rewritten(number: int) -> str:
    return (
        f"def price_{number}(count):\n"
        f"    total = 0\n"
        f"    for _ in range(count):\n"
        f"        total += {number + 2}\n"
        f"    return total\n\n\n"
    )


def _tests() -> str:
    """Each test looks at the result of its function, and takes its time."""
    tests = "".join(
        f"    def test_price_{number}(self):\n"
        f"        time.sleep({TEST_SECONDS})\n"
        f"        self.assertEqual(prices.price_{number}(3), {3 * (number + 2)})\n"
        for number in range(TESTS)
    )
    imports = "import time\nimport unittest\n\nimport prices\n\n\n"
    return f"{imports}class Prices(unittest.TestCase):\n{tests}"
