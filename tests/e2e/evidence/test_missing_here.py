"""What a verifier lacks is not held against the work: another one may have it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from shiftboss.errors import CiUnavailable, EvidenceElsewhere, UnknownRepo
from shiftboss.evidence.checks.claim_renewal import verify_with_renewal
from shiftboss.evidence.checks.verifier import Verifier
from shiftboss.protocol.claims.claim_requests import (
    RenewClaimAnswer,
    RenewClaimRequest,
    VerdictRequest,
)
from shiftboss.protocol.claims.verdicts import Verdict, VerificationJob
from tests.repos import UNCONTAINED, Repo
from tests.verifying import verify

pytestmark = pytest.mark.requirement("HO-04")


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    repo = Repo(tmp_path / "repo")
    repo.commit("work", {"src/auth/login.py": "token\n"})
    return repo


def test_a_commit_that_is_not_here_may_be_elsewhere(repo: Repo, tmp_path: Path) -> None:
    """Also if only the base is missing: this copy may be older, or another repository."""
    unknown = "a" * 40
    commit, base = verify(tmp_path, repo.job(commit=unknown), repo.job(base_commit=unknown))
    assert (commit.accepted, commit.missing) == (False, f"{unknown} is not in the repository")
    assert base.accepted is False
    assert base.missing == f"the base {unknown[:12]} is not in the repository"


def test_a_program_that_is_not_here_may_be_elsewhere(repo: Repo, tmp_path: Path) -> None:
    criteria = ["Command passes: no-such-program --version"]
    (verdict,) = verify(tmp_path, repo.job(criteria=criteria, policy=UNCONTAINED))
    assert (verdict.accepted, verdict.missing) == (False, "not found: no-such-program")


@pytest.mark.parametrize(
    ("criteria", "owned"),
    [
        (["Command passes: bin/no-such-program"], ["src/auth/"]),
        (["Command passes: no-such-program", "Command passes: false"], ["src/auth/"]),
        (["Command passes: no-such-program"], ["src/lib/"]),
    ],
)
def test_work_that_fails_for_another_reason_is_refused_here(
    repo: Repo, tmp_path: Path, criteria: list[str], owned: list[str]
) -> None:
    (verdict,) = verify(tmp_path, repo.job(criteria=criteria, owned=owned, policy=UNCONTAINED))
    assert (verdict.accepted, verdict.missing) == (False, None)


def reported(repo: Repo, job: VerificationJob, folder: Path) -> VerdictRequest:
    """What a verifier reports about the claim."""

    async def run() -> VerdictRequest | None:
        verifier = Verifier(folder)
        try:
            return await verify_with_renewal(job, "v", verifier.verify, renew)
        finally:
            await verifier.close()

    report = asyncio.run(run())
    assert report is not None
    return report


async def renew(_request: RenewClaimRequest) -> RenewClaimAnswer:
    return RenewClaimAnswer(held=True)


def test_a_repository_that_is_not_here_is_left_to_others(repo: Repo, tmp_path: Path) -> None:
    shallow, plain = tmp_path / "shallow", tmp_path / "plain"
    plain.mkdir()
    repo.git("clone", "--quiet", "--depth=1", f"file://{repo.path}", str(shallow))
    for path, reason in (
        (tmp_path / "nothing", f"There is no folder {tmp_path / 'nothing'}"),
        (plain, f"{plain} is not a git repository"),
        (shallow, f"{shallow} is a shallow clone"),
    ):
        report = reported(repo, repo.job(repo=str(path)), tmp_path / "v")
        assert (report.unable, report.failure, report.verdict) == (reason, None, None)


def test_without_git_a_claim_is_left_to_others(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = repo.job()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert reported(repo, job, tmp_path / "v").unable == "git is not installed"


@pytest.mark.parametrize(
    ("error", "is_left"),
    [
        (UnknownRepo("none"), True),
        (EvidenceElsewhere("none"), True),
        (CiUnavailable("none", reason="set_up", retry_after_seconds=1), True),
        (CiUnavailable("none", reason="token", retry_after_seconds=1), True),
        (CiUnavailable("none", reason="down", retry_after_seconds=1), False),
    ],
)
def test_only_what_this_machine_lacks_is_left_to_others(
    repo: Repo, error: Exception, is_left: bool
) -> None:
    async def fail(_job: VerificationJob) -> Verdict:
        raise error

    report = asyncio.run(verify_with_renewal(repo.job(), "v", fail, renew))
    assert report is not None
    assert (report.unable, report.failure) == (("none", None) if is_left else (None, "none"))
