"""Held-out tests: which sets are valid, and what a run of them proves."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Mapping, Sequence

import pytest

from shiftboss.evidence.checks.held_out import SUBJECT, UNWRITABLE, check_held_out
from shiftboss.evidence.mirror.overlays import Overlay, UnwritableCheckout
from shiftboss.protocol.claims.claim_requests import TakeClaimAnswer
from shiftboss.protocol.claims.verdicts import TestTotals, VerificationJob
from shiftboss.protocol.handoffs import Contract, HeldOutTests, VerificationPolicy, held_out_hash
from shiftboss.rules.claims.criteria import CommandResult
from shiftboss.rules.claims.held_out import (
    COMMAND_FAILS,
    NEEDS_CRITERION,
    NOT_RUN,
    HeldOutResult,
    criterion_problem,
    invalid_paths,
    judge_held_out,
)
from shiftboss.rules.claims.test_runs.judgement import CommandRun
from shiftboss.rules.claims.test_runs.run_report import CaseOutcome, ReportedTest, RunReport
from shiftboss.rules.claims.verdicts import CheckOutcome

pytestmark = pytest.mark.requirement("OWN-14")

HIDDEN = "tests/test_hidden.py"
OTHER = "tests/test_other.py"
THREE = "def test_a(): ...\ndef test_b(): ...\nclass TestC:\n    def test_c(self): ...\n"
OWN_CRITERION = "Tests pass: pytest tests/test_hidden.py"


def case(name: str, outcome: CaseOutcome = "passed", file: str | None = HIDDEN) -> ReportedTest:
    return ReportedTest(file, name, outcome)


def totals(*cases: ReportedTest) -> TestTotals:
    outcomes = [each.outcome for each in cases]
    passed = outcomes.count("passed")
    ran = passed + outcomes.count("failed")
    return TestTotals(source="report", ran=ran, passed=passed, skipped=outcomes.count("skipped"))


def judge(
    *cases: ReportedTest,
    files: Mapping[str, str] | None = None,
    code: int | None = 0,
    visible: TestTotals | None = None,
) -> HeldOutResult:
    return judge_held_out(files or {HIDDEN: THREE}, cases, totals(*cases), code, visible)


ALL = (case("test_a"), case("test_b"), case("TestC::test_c"))


def test_all_held_out_tests_pass() -> None:
    visible = (case("test_seen", file="tests/test_seen.py"),)
    assert judge(*ALL, *visible) == HeldOutResult(3, 3, 0)


def test_the_refusal_says_how_many_fail_and_nothing_else() -> None:
    cases = (case("test_a"), case("test_b[secret]", "failed"), case("TestC::test_c", "failed"))
    assert judge(*cases, code=1) == HeldOutResult(3, 1, 2, "2 of 3 held-out tests fail")
    assert judge(*ALL[:2], case("TestC::test_c", "failed")).problem == "1 of 3 held-out tests fails"


def test_a_held_out_test_that_the_code_under_test_skips_or_hides_has_failed() -> None:
    skipped = judge(*ALL[:2], case("TestC::test_c", "skipped"))
    assert skipped.problem == "1 of 3 held-out tests fails"
    hidden = judge(*ALL[:2])
    assert hidden.problem == "1 of 3 held-out tests fails"
    # Many cases of one test do not make up for another test.
    assert judge(*(case(f"test_a[{number}]") for number in range(9))).failed == 2


def test_two_tests_of_javascript_may_have_the_same_title() -> None:
    path = "src/more.test.js"
    text = "test('adds', () => {});\ntest('adds', () => {});\n"
    cases = [case("adds", file=path), case("adds", file=path)]
    assert judge(*cases, files={path: text}) == HeldOutResult(2, 2, 0)
    assert judge(cases[0], files={path: text}).problem == "1 of 2 held-out tests fails"


def test_a_held_out_test_that_its_own_file_skips_does_not_count() -> None:
    text = THREE + "import pytest\n@pytest.mark.skip\ndef test_later(): ...\n"
    cases = (*ALL, case("test_later", "skipped"))
    assert judge(*cases, files={HIDDEN: text}) == HeldOutResult(3, 3, 0)


def test_every_held_out_file_with_tests_must_have_run() -> None:
    files = {HIDDEN: THREE, OTHER: "def test_d(): ...\n", "tests/data.json": "{}"}
    assert judge(*ALL, files=files).problem == NOT_RUN
    assert judge(*ALL, case("test_d", file=OTHER), files=files).problem is None


@pytest.mark.parametrize("code", [0, 1, None])
def test_no_report_and_no_held_out_test_are_refused_whatever_the_exit_code(
    code: int | None,
) -> None:
    assert judge_held_out({HIDDEN: THREE}, [], None, code).problem == NOT_RUN
    assert judge(case("test_seen", file="tests/test_seen.py"), code=code).problem == NOT_RUN


def test_a_command_that_fails_although_its_tests_pass_is_refused() -> None:
    assert judge(*ALL, code=3) == HeldOutResult(3, 3, 0, COMMAND_FAILS)


def test_without_files_the_tests_beyond_the_visible_ones_are_the_held_out_ones() -> None:
    seen = [case(f"TestSeen{number}", file=None) for number in range(4)]
    visible = totals(*seen)
    assert judge(*seen, visible=visible).problem == NOT_RUN
    more = [case(f"TestNew{number}", file=None) for number in range(2)]
    assert judge(*seen, *more, visible=visible) == HeldOutResult(2, 2, 0)
    bad = [*seen, more[0], more[1]._replace(outcome="failed")]
    assert judge(*bad, code=1, visible=visible).problem == "1 of 3 held-out tests fails"


def test_without_files_a_command_of_their_own_must_report_as_many_as_the_files_have() -> None:
    cases = [case._replace(file=None) for case in ALL]
    assert judge(*cases).problem is None
    assert judge(*cases[:2]).problem == "1 of 3 held-out tests fails"


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/etc/passwd", "is absolute"),
        ("../tests/a.py", "contains .."),
        (".git/hooks/pre-commit", "is inside .git"),
        ("tests/", "names a folder"),
        ("./tests/a.py", "write tests/a.py"),
        ("tests/b.py/c.py", "is below another"),
    ],
)
def test_a_path_that_no_file_of_a_checkout_can_have(path: str, reason: str) -> None:
    ((wrong, why),) = invalid_paths(["tests/b.py", path])
    assert wrong == path
    assert reason in why


def test_something_must_run_the_held_out_tests() -> None:
    assert criterion_problem(None, ["It works", "Type check passes: mypy"]) == NEEDS_CRITERION
    assert criterion_problem(None, ["Tests pass: pytest"]) is None
    assert criterion_problem("Tests pass: pytest tests/hidden", []) is None
    assert criterion_problem("Command passes: true", []) == "must be `Tests pass: COMMAND`"
    assert "without a shell" in (criterion_problem("Tests pass: a && b", []) or "")


def test_the_repr_of_a_job_or_a_set_shows_nothing_of_it() -> None:
    tests = HeldOutTests(files={"tests/test_zebra.py": "zebra"}, criterion="Tests pass: zebra")
    assert "zebra" not in repr(tests) + str(tests) + repr(job(tests))


def test_a_verifier_on_another_machine_gets_them() -> None:
    tests = HeldOutTests(files={HIDDEN: THREE}, criterion=OWN_CRITERION)
    sent = TakeClaimAnswer(job=job(tests)).model_dump_json()
    received = TakeClaimAnswer.model_validate_json(sent).job
    assert received is not None
    assert received.held_out == tests


# -- the check


def job(tests: HeldOutTests | None, *criteria: str) -> VerificationJob:
    return VerificationJob(
        swarm_id="s",
        bead_id="bd-1",
        epoch=1,
        claim_id=1,
        repo="/r",
        base_commit="b" * 40,
        branch=None,
        target=None,
        commit=None,
        files_touched=[],
        contract=Contract(
            task_id="bd-1",
            files_owned=["src/"],
            files_readonly=[],
            dependencies_completed=[],
            success_criteria=list(criteria) or ["Tests pass: pytest"],
        ),
        contract_version=1,
        contract_hash="0" * 64,
        policy=VerificationPolicy(canaries="off"),
        held_out=tests,
    )


def ended(code: int, *cases: ReportedTest) -> CommandRun:
    result = CommandResult(code, False, False, "", 5, f"exit code {code}")
    return CommandRun("pytest", True, result, RunReport.of_tests("report", cases))


def checked(
    claim: VerificationJob, *cases: ReportedTest, code: int = 0
) -> tuple[CheckOutcome, list[str]]:
    commands: list[str] = []

    async def run(overlay: Overlay, argv: Sequence[str]) -> CommandRun:
        assert (list(overlay.files), overlay.after_setup) == ([HIDDEN], True)
        commands.append(" ".join(argv))
        return ended(code, *cases)

    outcome = asyncio.run(check_held_out(run, claim, {}))
    assert outcome is not None
    return outcome, commands


def test_the_check_names_the_set_by_its_hash_and_counts_what_ran() -> None:
    tests = HeldOutTests(files={HIDDEN: THREE}, criterion=OWN_CRITERION)
    (result, violations, _), commands = checked(job(tests), *ALL)
    assert commands == ["pytest tests/test_hidden.py"]
    assert (result.outcome, result.subject, violations) == ("passed", SUBJECT, ())
    assert result.message == f"3 held-out tests pass; sha256 {held_out_hash(tests)}"
    assert result.tests == TestTotals(source="report", ran=3, passed=3)
    assert (result.output_tail, result.exit_code, result.duration_ms) == (None, None, 0)


def test_the_refusal_has_no_name_no_path_and_no_output() -> None:
    tests = HeldOutTests(files={HIDDEN: THREE}, criterion=OWN_CRITERION)
    bad = (*ALL[:2], case("TestC::test_c[secret]", "failed"))
    (result, violations, _), _ = checked(job(tests), *bad, code=1)
    assert [violation.message for violation in violations] == ["1 of 3 held-out tests fails"]
    shown = result.model_dump_json() + violations[0].model_dump_json()
    assert not any(word in shown for word in ("hidden", "test_c", "secret", "pytest"))


def test_without_a_criterion_each_one_of_the_contract_that_runs_tests_is_run() -> None:
    tests = HeldOutTests(files={HIDDEN: THREE})
    contract = ("It works", "Tests pass: pytest tests", "Tests pass: pytest e2e")
    outcome, commands = checked(job(tests, *contract), *ALL)
    assert (outcome.holds, commands) == (True, ["pytest tests", "pytest e2e"])


def test_files_that_cannot_be_written_refuse_the_claim_without_naming_them() -> None:
    """The setup can put something where a held-out file has to be."""
    tests = HeldOutTests(files={HIDDEN: THREE}, criterion=OWN_CRITERION)

    async def run(_overlay: Overlay, _argv: Sequence[str]) -> CommandRun:
        raise UnwritableCheckout(HIDDEN)

    outcome = asyncio.run(check_held_out(run, job(tests), {}))
    assert outcome is not None
    assert [violation.message for violation in outcome.violations] == [UNWRITABLE]
    assert "dispute_contract" in outcome.violations[0].hint


def test_a_machine_that_lacks_something_refuses_nothing() -> None:
    tests = HeldOutTests(files={HIDDEN: THREE}, criterion=OWN_CRITERION)

    async def run(_overlay: Overlay, _argv: Sequence[str]) -> CommandRun:
        raise BlockingIOError(errno.EAGAIN, "no more processes")

    with pytest.raises(BlockingIOError):
        asyncio.run(check_held_out(run, job(tests), {}))


def test_a_task_without_held_out_tests_has_no_such_check() -> None:
    async def run(_overlay: Overlay, _argv: Sequence[str]) -> CommandRun:
        raise AssertionError("nothing is run")

    assert asyncio.run(check_held_out(run, job(None), {})) is None
