"""Milestones: their lines, their order, and what a DONE report must contain."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from shiftboss.errors import ContractViolations, IllegalTransition, InvalidRequest
from shiftboss.protocol.contract.milestone_lines import (
    FORMATS,
    milestone_word,
    parse_line,
    render_line,
)
from shiftboss.protocol.contract.milestones import (
    Blocked,
    BlockedPermission,
    Done,
    FixingCi,
    FixingSubstate,
    MilestoneReport,
    PushedSubstate,
    PushedToCi,
    Working,
    WorkingSubstate,
    milestone_of_report,
    progress_of,
)
from shiftboss.protocol.policy import Milestone
from shiftboss.protocol.states import WorkerState
from shiftboss.rules.contract.milestones import (
    RunName,
    can_report,
    check_done_report,
    check_may_read_ci,
    check_named_run,
    check_report_order,
    milestone_view,
)

ALL: tuple[Milestone, ...] = ("WORKING", "PUSHED_TO_CI", "FIXING_CI", "DONE", "BLOCKED")

LINES: list[tuple[str, MilestoneReport]] = [
    (
        "WORKING: Implementing AX token types in vm/types/ax.rs",
        Working(description="Implementing AX token types in vm/types/ax.rs"),
    ),
    (
        "PUSHED_TO_CI: alphavm commit a1b2c3d - CI run #451",
        PushedToCi(repo="alphavm", commit="a1b2c3d", ci_run="451"),
    ),
    (
        "FIXING_CI: test job - missing mock for CreditPool",
        FixingCi(failed_job="test job", diagnosis="missing mock for CreditPool"),
    ),
    (
        "DONE: alphavm CI run #452 all green, radicle-push: success",
        Done(
            repo="alphavm",
            ci_run="452",
            all_green=True,
            sync_job="radicle-push",
            sync_status="success",
        ),
    ),
    (
        "DONE: adnet CI run #90 all green, Radicle synced",
        Done(repo="adnet", ci_run="90", all_green=True, sync_status="success"),
    ),
    ("BLOCKED: acdc-core is red", Blocked(reason="acdc-core is red")),
    (
        "BLOCKED_PERMISSION: Bash - Permission to use Bash has been auto-denied",
        BlockedPermission(tool="Bash", error="Permission to use Bash has been auto-denied"),
    ),
    (
        "WORKING: writing tests [substate: writing_tests] [files: 3/5]",
        Working(
            description="writing tests",
            substate="writing_tests",
            files_modified=3,
            estimated_files=5,
        ),
    ),
    (
        "PUSHED_TO_CI: a commit 7f3a2b1 - CI run #89 [substate: ci_running] [job: b] [jobs: 2/6]",
        PushedToCi(
            repo="a",
            commit="7f3a2b1",
            ci_run="89",
            substate="ci_running",
            current_job="b",
            jobs_passed=2,
            jobs_total=6,
        ),
    ),
    (
        "FIXING_CI: test job - a - b [substate: diagnosing] [category: lint] [attempt: 2/5]",
        FixingCi(
            failed_job="test job",
            diagnosis="a - b",
            substate="diagnosing",
            error_category="lint",
            attempt=2,
            max_attempts=5,
        ),
    ),
    (
        'FIXING_CI: "build - linux" - no linker',
        FixingCi(failed_job="build - linux", diagnosis="no linker"),
    ),
    (
        "PUSHED_TO_CI: adnet commit 7f3a2b1 - CI run https://forge.example/a/b/actions/runs/7",
        PushedToCi(
            repo="adnet", commit="7f3a2b1", ci_run="https://forge.example/a/b/actions/runs/7"
        ),
    ),
    (
        "DONE: alphavm CI run #452 all green, radicle-push: skipped",
        Done(
            repo="alphavm",
            ci_run="452",
            all_green=True,
            sync_job="radicle-push",
            sync_status="skipped",
        ),
    ),
]


@pytest.mark.parametrize(("line", "report"), LINES)
def test_a_line_is_parsed_and_rendered(line: str, report: MilestoneReport) -> None:
    assert parse_line(line) == report
    assert render_line(report) == line


@pytest.mark.parametrize("before", ["- ", "  ", "* ", "\t- ", "  - "])
@pytest.mark.parametrize(("line", "report"), LINES)
def test_list_markers_and_spaces_are_ignored(
    line: str, report: MilestoneReport, before: str
) -> None:
    assert parse_line(f"{before}{line.replace(' ', '  ')} \r\n") == report


@pytest.mark.parametrize(
    ("line", "missing"),
    [
        ("WORKING:", ["description"]),
        ("WORKING:   [substate: writing_tests]", ["description"]),
        ("PUSHED_TO_CI:", ["repo", "commit", "ci_run"]),
        ("PUSHED_TO_CI: alphavm commit a1b2c3d", ["ci_run"]),
        ("PUSHED_TO_CI: alphavm commit a1b2c3d - CI run #", ["ci_run"]),
        ("PUSHED_TO_CI: alphavm commit - CI run #451", ["commit"]),
        ("PUSHED_TO_CI: commit a1b2c3d - CI run #451", ["repo"]),
        ("PUSHED_TO_CI: alphavm - CI run #451", ["commit"]),
        ("FIXING_CI: test job", ["diagnosis"]),
        ("FIXING_CI: test job -", ["diagnosis"]),
        ("FIXING_CI:", ["failed_job", "diagnosis"]),
        ("DONE:", ["repo", "ci_run"]),
        ("DONE: alphavm", ["ci_run"]),
        ("DONE: CI run #5 all green, Radicle synced", ["repo"]),
        ("BLOCKED: ", ["reason"]),
        ("BLOCKED_PERMISSION: Bash", ["error"]),
    ],
)
def test_missing_parts_of_a_line_are_named(line: str, missing: list[str]) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_line(line)
    assert caught.value.facts == {"missing": missing}
    assert caught.value.field == missing[0]
    word = line.partition(":")[0]
    assert caught.value.detail.startswith(f"{word}: missing {missing[0]}")
    assert caught.value.hint == f"the format is {FORMATS[word]}"  # type: ignore[index]


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ("PUSHED_TO_CI: alphavm commit xyz - CI run #451", "commit"),
        ("PUSHED_TO_CI: alpha vm commit a1b2c3d - CI run #451", "repo"),
        ("PUSHED_TO_CI: alphavm commit a1b2c3d - CI run #4 5 1", "ci_run"),
        ("WORKING: x [substate: dreaming]", "substate"),
        ("WORKING: x [substate: ci_running]", "substate"),
        ("WORKING: x [attempt: 1/5]", "description"),
        ("WORKING: x [files: many]", "files_modified"),
        ("FIXING_CI: a - b [attempt: 6/5]", "line"),
        ("FIXING_CI: a - b [attempt: 99999999/5]", "attempt"),
        ("DONE: alphavm CI run #5 all green, radicle-push: fine", "sync_status"),
        ("DONE: alphavm CI run #5 mostly green", "sync_job"),
        ("all done", "line"),
        ("DONE", "line"),
        ("working: x", "line"),
        ("WORKING : x", "line"),
        ("WORKING: " + "x" * 5000, "line"),
    ],
)
def test_an_invalid_line_is_refused_by_field(line: str, field: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_line(line)
    assert caught.value.field == field


def test_only_a_line_that_begins_with_a_milestone_is_a_report() -> None:
    assert milestone_word("- FIXING_CI: x") == "FIXING_CI"
    assert milestone_word("BLOCKED_PERMISSION: x") == "BLOCKED_PERMISSION"
    assert milestone_word("I am DONE: really") is None
    assert milestone_word("UNDONE: x") is None


@pytest.mark.parametrize(
    "line",
    [
        "WORKING: " + "[substate: " * 400,
        "WORKING: " + "]" * 4900,
        "WORKING: " + " [files: 1/2]" * 370,
        "FIXING_CI: " + '" - ' * 1200,
        "FIXING_CI: " + "- " * 2400,
        "PUSHED_TO_CI: " + " commit" * 700,
        "DONE: " + " CI run" * 700,
        "DONE: a CI run #1 " + ", " * 2400,
        "-" * 4000 + "WORKING: x",
    ],
)
def test_odd_lines_are_parsed_quickly(line: str) -> None:
    began = time.process_time()
    for _ in range(20):
        try:
            parse_line(line)
        except InvalidRequest:
            pass
    assert time.process_time() - began < 2


TEXTS = st.text(min_size=1, max_size=60) | st.text('-"[]: #,ab', min_size=1, max_size=30)
JOB_STATES = st.sampled_from(["waiting", "running", "success", "failure", "cancelled", "skipped"])


def built(kind: type, **members: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    """Reports that can be constructed; the types refuse the others."""

    def make(values: dict[str, object]) -> object:
        try:
            return kind(**values)
        except ValidationError:
            return None

    return st.fixed_dictionaries(members).map(make).filter(lambda report: report is not None)


def maybe(values: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.none() | values


REPOS = st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,20}\Z")
RUNS = st.from_regex(r"\A([A-Za-z0-9][A-Za-z0-9._-]{0,20}|https?://[^\s\x00]{1,30})\Z")
COUNTS = st.integers(0, 7)
REPORTS = st.one_of(
    built(
        Working,
        description=TEXTS,
        substate=maybe(st.sampled_from(get_args(WorkingSubstate))),
        files_modified=maybe(COUNTS),
        estimated_files=maybe(COUNTS),
    ),
    built(
        PushedToCi,
        repo=REPOS,
        commit=st.from_regex(r"\A[a-f0-9]{7,40}\Z"),
        ci_run=RUNS,
        substate=maybe(st.sampled_from(get_args(PushedSubstate))),
        current_job=maybe(TEXTS),
        jobs_passed=maybe(COUNTS),
        jobs_total=maybe(COUNTS),
    ),
    built(
        FixingCi,
        failed_job=TEXTS,
        diagnosis=TEXTS,
        substate=maybe(st.sampled_from(get_args(FixingSubstate))),
        error_category=maybe(TEXTS),
        attempt=maybe(COUNTS),
        max_attempts=maybe(COUNTS),
    ),
    built(
        Done,
        repo=REPOS,
        ci_run=RUNS,
        all_green=maybe(st.booleans()),
        sync_job=maybe(TEXTS),
        sync_status=maybe(JOB_STATES),
    ),
    built(Blocked, reason=TEXTS),
    built(BlockedPermission, tool=TEXTS, error=TEXTS),
)


@given(REPORTS)
def test_a_rendered_report_parses_back_to_itself(report: MilestoneReport) -> None:
    line = render_line(report)
    assert "\n" not in line
    assert parse_line(line) == report


@given(st.sampled_from(sorted(FORMATS)), st.text(max_size=80))
def test_any_line_is_parsed_or_refused(word: str, rest: str) -> None:
    line = f"{word}: {rest}"
    try:
        report = parse_line(line)
    except InvalidRequest:
        return
    assert parse_line(render_line(report)) == report


def test_multiline_text_becomes_one_line() -> None:
    assert Working(description=" two\n lines ").description == "two lines"


@pytest.mark.parametrize(
    ("line", "progress"),
    [
        ("WORKING: x [files: 3/5]", "3/5 files"),
        ("WORKING: x", None),
        ("PUSHED_TO_CI: a commit a1b2c3d - CI run #1 [jobs: 2/6]", "2/6 jobs"),
        ("FIXING_CI: a - b [substate: fetching_logs]", None),
        ("FIXING_CI: a - b [substate: diagnosing]", None),
        ("FIXING_CI: a - b [substate: implementing_fix]", "diagnosis complete"),
        ("FIXING_CI: a - b [substate: local_test]", "fix applied"),
        ("FIXING_CI: a - b [substate: preparing_fix_commit]", "verified"),
        ("BLOCKED: x", None),
    ],
)
def test_progress_is_taken_from_the_report(line: str, progress: str | None) -> None:
    assert progress_of(parse_line(line)) == progress


LEGAL = {
    ("WORKING", "PUSHED_TO_CI"),
    ("PUSHED_TO_CI", "FIXING_CI"),
    ("PUSHED_TO_CI", "DONE"),
    ("FIXING_CI", "PUSHED_TO_CI"),
    *[(one, "BLOCKED") for one in ("WORKING", "PUSHED_TO_CI", "FIXING_CI")],
    *[("BLOCKED", one) for one in ("WORKING", "PUSHED_TO_CI", "FIXING_CI")],
    *[(one, one) for one in ("WORKING", "PUSHED_TO_CI", "FIXING_CI", "BLOCKED")],
}


@pytest.mark.parametrize("present", ALL)
@pytest.mark.parametrize("new", ALL)
def test_the_transitions_of_the_contract(present: Milestone, new: Milestone) -> None:
    assert can_report(present, new) is ((present, new) in LEGAL)


def test_work_begins_with_working() -> None:
    assert [one for one in ALL if can_report(None, one)] == ["WORKING"]


def test_an_illegal_move_names_the_legal_ones() -> None:
    with pytest.raises(IllegalTransition) as caught:
        check_report_order("WORKING", "DONE")
    assert caught.value.facts == {"milestone": "WORKING", "legal": ["PUSHED_TO_CI", "BLOCKED"]}
    check_report_order("PUSHED_TO_CI", "DONE")


def test_the_example_session_is_legal_step_by_step() -> None:
    session = [
        "WORKING: Setting up fee calculation module in adnet/crates/adnet-runtime/src/fees/",
        "WORKING: Implementing BaseFee and DynamicFee structs",
        "PUSHED_TO_CI: adnet commit 7f3a2b1 - CI run #89",
        "FIXING_CI: test job - assertion failed in fee_calculation_test",
        "PUSHED_TO_CI: adnet commit 8e4b3c2 - CI run #90",
        "DONE: adnet CI run #90 all green, Radicle synced",
    ]
    milestones = [milestone_of_report(parse_line(line)) for line in session]
    assert can_report(None, milestones[0])
    assert all(can_report(one, two) for one, two in pairwise(milestones))


@pytest.mark.parametrize(
    ("state", "ci_failed", "milestone"),
    [
        (WorkerState.IDLE, False, None),
        (WorkerState.ASSIGNED, False, None),
        (WorkerState.EXECUTING, False, "WORKING"),
        (WorkerState.EXECUTING, True, "FIXING_CI"),
        (WorkerState.VERIFYING, False, "PUSHED_TO_CI"),
        (WorkerState.SELF_REVIEW, False, "PUSHED_TO_CI"),
        (WorkerState.BLOCKED, True, "BLOCKED"),
        (WorkerState.COMPLETE, False, "DONE"),
        (WorkerState.FAILED, True, None),
    ],
)
def test_a_milestone_is_derived_from_the_state(
    state: WorkerState, ci_failed: bool, milestone: Milestone | None
) -> None:
    assert milestone_view(state, ci_failed=ci_failed) == milestone


def test_a_waiting_assignment_keeps_its_milestone() -> None:
    waiting = milestone_view(WorkerState.WAITING, ci_failed=True, before="PUSHED_TO_CI")
    assert waiting == "PUSHED_TO_CI"


def done(**members: object) -> Done:
    return Done.model_validate({"repo": "alphavm", **members})


PROVEN = {"ci_run": "452", "all_green": True, "sync_status": "success"}


@pytest.mark.parametrize("left_out", [[member] for member in PROVEN] + [list(PROVEN)])
def test_a_done_report_without_proof_is_refused_with_everything_missing(
    left_out: list[str],
) -> None:
    report = done(**{name: value for name, value in PROVEN.items() if name not in left_out})
    with pytest.raises(InvalidRequest) as caught:
        check_done_report(report, ["radicle-push"])
    assert caught.value.facts["missing"] == left_out
    assert all(name in caught.value.detail for name in left_out)


def test_a_done_report_with_proof_is_accepted() -> None:
    check_done_report(done(**PROVEN), ["radicle-push"])
    check_done_report(done(ci_run="452", all_green=True), [])


@pytest.mark.parametrize("status", ["skipped", "cancelled", "failure", "running", "waiting"])
def test_a_done_report_with_another_sync_status_is_refused_by_name(status: str) -> None:
    report = done(**(PROVEN | {"sync_job": "radicle-push", "sync_status": status}))
    with pytest.raises(ContractViolations, match=f"radicle-push is {status}") as caught:
        check_done_report(report, ["radicle-push"])
    assert caught.value.facts == {"forbidden": "assuming_radicle_synced"}


def test_a_done_report_that_is_not_all_green_is_refused() -> None:
    with pytest.raises(ContractViolations) as caught:
        check_done_report(done(**(PROVEN | {"all_green": False})), ["radicle-push"])
    assert caught.value.facts == {"forbidden": "done_without_ci_url"}


RUN = "https://forge.example/team/app/actions/runs/77001"


@pytest.mark.parametrize("named", ["452", "77001", RUN, f"{RUN}/job/3"])
def test_a_run_of_the_commit_is_known_by_number_id_and_address(named: str) -> None:
    check_named_run(named, [RunName("451"), RunName("452", f"{RUN}/")], "a" * 40, "ci_run")


def test_a_run_without_an_address_is_known_by_its_number() -> None:
    check_named_run("https://ci.example/runs/452", [RunName("452")], "a" * 40, "ci_run")


@pytest.mark.requirement("CC-03", "CC-09")
@pytest.mark.parametrize("named", ["45", "453", f"{RUN}2", RUN.replace("/app/", "/other/")])
def test_a_run_of_another_commit_or_repo_is_refused(named: str) -> None:
    with pytest.raises(ContractViolations) as caught:
        check_named_run(named, [RunName("452", RUN)], "a" * 40, "ci_run")
    assert (caught.value.field, caught.value.hint) == (
        "ci_run",
        "the runs of this commit are: #452",
    )


@pytest.mark.requirement("CC-08")
@pytest.mark.parametrize("milestone", [None, "WORKING", "BLOCKED"])
def test_the_ci_instructions_come_after_the_push(milestone: Milestone | None) -> None:
    with pytest.raises(IllegalTransition) as caught:
        check_may_read_ci("bd-1", milestone, has_pushed=False)
    assert caught.value.facts["legal"] == ["PUSHED_TO_CI"]
    check_may_read_ci("bd-1", milestone, has_pushed=True)
    for later in ("PUSHED_TO_CI", "FIXING_CI", "DONE"):
        check_may_read_ci("bd-1", later, has_pushed=False)
