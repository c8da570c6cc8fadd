"""The failure classes, and the termination of a worker that may not use its tools."""

from __future__ import annotations

import time

import pytest

from shiftboss.protocol.contract.milestone_lines import parse_line
from shiftboss.protocol.contract.milestones import BlockedPermission
from shiftboss.protocol.policy import Backoff, Failures, PermissionLimits, RecoverableLimits
from shiftboss.rules.contract.failures import (
    EXAMPLES,
    FailureClass,
    action_for,
    classify,
    sounds_fatal,
)
from shiftboss.rules.tasks.permission_denials import (
    COUNTED_MAX,
    RECOVERY,
    after_denial,
    after_success,
    find_denial,
    must_terminate,
    termination,
)

POLICY = Failures()
LIMITS = PermissionLimits()


@pytest.mark.parametrize(
    ("name", "failure_class"),
    [(name, failure_class) for failure_class, names in EXAMPLES.items() for name in names],
)
def test_each_example_of_the_contract_has_its_class(name: str, failure_class: FailureClass) -> None:
    assert classify(name, "", POLICY) == failure_class
    assert classify(f" {name.upper().replace('_', '-')} ", "whatever", POLICY) == failure_class


def test_the_contract_has_five_classes() -> None:
    assert {name: len(examples) for name, examples in EXAMPLES.items()} == {
        "transient": 4,
        "recoverable": 5,
        "blocking": 4,
        "permission_denied": 3,
        "fatal": 4,
    }


@pytest.mark.parametrize(
    ("text", "failure_class"),
    [
        ("HTTP 502 from the forge", "transient"),
        ("502 Bad Gateway", "transient"),
        ("API rate limit exceeded for user", "transient"),
        ("Error: 429 Too Many Requests", "transient"),
        ("dial tcp: i/o timeout", "transient"),
        ("the request timed out", "transient"),
        ("curl: (7) Connection refused", "transient"),
        ("no runner available", "transient"),
        ("Permission to use Bash has been auto-denied (prompts unavailable)", "permission_denied"),
        ("mkdir: cannot create directory 'x': Permission denied", "permission_denied"),
        ("EACCES: permission denied, open 'x'", "permission_denied"),
        ("git@forge: Permission denied (publickey).", "blocking"),
        ("CONFLICT (content): Merge conflict in src/a.rs", "blocking"),
        ("fatal: Authentication failed for 'https://forge.example'", "blocking"),
        ("missing credentials for the registry", "blocking"),
        ("the API key was exposed in a commit", "blocking"),
        ("leaked the signing secret; then the push timed out", "blocking"),
        ("data corruption detected in block 7", "blocking"),
        ("3 tests failed", "recoverable"),
        ("AssertionError: 1 != 2", "recoverable"),
        ("clippy: needless borrow", "recoverable"),
        ("ModuleNotFoundError: No module named 'x'", "recoverable"),
        ("something nobody has ever seen", "recoverable"),
        ("", "recoverable"),
    ],
)
def test_an_unknown_type_is_classified_by_its_message(
    text: str, failure_class: FailureClass
) -> None:
    assert classify(None, text, POLICY) == failure_class
    assert classify("odd_error", text, POLICY) == failure_class


@pytest.mark.parametrize(
    "text",
    [
        "the API key was exposed in a commit",
        "leaked the signing secret; then the push timed out",
        "data corruption detected in block 7",
        "the test 'api key exposed in log' failed: expected one line",
        "security vulnerability",
    ],
)
def test_a_message_alone_is_never_fatal(text: str) -> None:
    for error_type in (None, "odd_error"):
        assert classify(error_type, text, POLICY) == "blocking"
        assert sounds_fatal(error_type, text, POLICY)
    # An explicit type is believed.
    assert classify("test_failure", text, POLICY) == "recoverable"
    assert not sounds_fatal("test_failure", text, POLICY)
    assert classify("api_key_exposed_in_commit", text, POLICY) == "fatal"
    assert not sounds_fatal(None, "CONFLICT (content): Merge conflict", POLICY)


def test_the_type_takes_precedence_over_the_message() -> None:
    assert classify("test_failure", "502 Bad Gateway", POLICY) == "recoverable"


def test_the_types_that_packets_report_have_a_class() -> None:
    classes = [classify(name, "", POLICY) for name in ("network_error", "test_flake", "rate_limit")]
    assert classes == ["transient"] * 3
    assert classify("merge_conflict", "", POLICY) == "blocking"
    assert classify("build_failure", "", POLICY) == "recoverable"


def test_the_policy_takes_precedence_over_everything() -> None:
    policy = Failures(classes={"test_failure": "fatal", "flaky disk": "transient"})
    assert classify("test_failure", "", policy) == "fatal"
    assert classify("flaky disk", "3 tests failed", policy) == "transient"


def test_a_long_text_is_classified_quickly_by_its_ends() -> None:
    began = time.process_time()
    assert classify(None, "x" * 5_000_000 + " 502 Bad Gateway", POLICY) == "transient"
    assert classify(None, "secret " * 500_000, POLICY) == "recoverable"
    assert find_denial("requested permissions to write " * 100_000) is None
    assert time.process_time() - began < 5


def test_transient_failures_are_retried_with_a_doubling_delay() -> None:
    actions = [action_for("transient", attempts, POLICY) for attempts in range(1, 5)]
    assert [action.kind for action in actions] == ["retry", "retry", "retry", "escalate"]
    assert [action.retry_in_seconds for action in actions] == [5, 10, 20, None]


def test_the_delay_never_exceeds_its_maximum() -> None:
    policy = Failures(transient=Backoff(max_retries=10))
    delays = [action_for("transient", n, policy).retry_in_seconds for n in range(1, 11)]
    assert delays == [5, 10, 20, 40, 60, 60, 60, 60, 60, 60]


def test_a_recoverable_failure_is_left_to_the_worker_until_its_attempts_run_out() -> None:
    kinds = [action_for("recoverable", attempts, POLICY).kind for attempts in range(1, 7)]
    assert kinds == ["fix", "fix", "escalate", "escalate", "terminate", "terminate"]
    own = Failures(recoverable=RecoverableLimits(escalate_after=1, max_attempts=2))
    assert [action_for("recoverable", n, own).kind for n in (1, 2)] == ["escalate", "terminate"]


def test_a_blocking_failure_pauses_and_a_fatal_one_halts() -> None:
    assert action_for("blocking", 1, POLICY).kind == "pause"
    fatal = action_for("fatal", 1, POLICY)
    assert fatal.kind == "halt"
    assert "until a human lifts it" in fatal.message


def test_the_second_denial_terminates_with_the_line_of_the_contract() -> None:
    first = action_for("permission_denied", 1, POLICY, tool="Bash", error="auto-denied")
    second = action_for("permission_denied", 2, POLICY, tool="Bash", error="auto-denied")
    assert (first.kind, second.kind) == ("report", "terminate")
    assert "do not retry, and do not work around it" in first.message
    assert "report BLOCKED_PERMISSION: Bash - auto-denied, list the files" in first.message
    report, message = second.message.split("\n")
    assert parse_line(report) == BlockedPermission(tool="Bash", error="auto-denied")
    assert message == (
        "TERMINATED: Permission failure on Bash. Cannot proceed. Orchestrator must fix "
        "permissions or respawn with different instructions."
    )


@pytest.mark.parametrize(
    ("text", "tool"),
    [
        ("Permission to use Bash has been auto-denied", "Bash"),
        ("Permission to use Write has been auto-denied in dontAsk mode.", "Write"),
        ("Permission to use mcp__forge__push has been denied.", "mcp__forge__push"),
        (
            "Claude requested permissions to use WebFetch, but you haven't granted it yet.",
            "WebFetch",
        ),
        ("Claude requested permissions to write to /a/b, but you haven't granted it yet.", "Write"),
        ("Claude requested permissions to edit /a/b, but you haven't granted it yet.", "Edit"),
        ("The user doesn't want to proceed. The tool use was rejected", "Bash"),
        ("This command requires approval", "Bash"),
        ("approval policy is Never; reject command - you cannot ask for escalated", "Bash"),
        ("exec `ls` rejected: blocked by policy", "Bash"),
        ("bash: /etc/x: Permission denied", "Bash"),
        ("mkdir: cannot create directory 'x': Read-only file system", "Bash"),
        ("touch: Operation not permitted", "Bash"),
        ("EPERM: not allowed", "Bash"),
    ],
)
def test_a_denial_is_recognised_with_its_tool(text: str, tool: str) -> None:
    denial = find_denial(f"some output\n{text}\nmore")
    assert denial is not None
    assert (denial.tool, denial.error) == (tool, text)


@pytest.mark.parametrize(
    "text", ["all tests passed", "git@x: Permission denied (publickey).", "the perms are fine", ""]
)
def test_other_texts_are_not_denials(text: str) -> None:
    assert find_denial(text) is None


def test_the_reporting_tool_counts_if_the_text_names_none() -> None:
    denial = find_denial("Permission denied", tool="Write")
    assert denial is not None
    assert denial.tool == "Write"


def test_the_second_consecutive_denial_terminates_the_worker() -> None:
    counts = after_denial({}, "Bash")
    assert not must_terminate(counts, LIMITS)
    assert must_terminate(after_denial(counts, "Bash"), LIMITS)


def test_denials_of_other_tools_in_between_are_ignored() -> None:
    counts = after_denial(after_denial({}, "Bash"), "Write")
    assert not must_terminate(counts, LIMITS)
    assert must_terminate(after_denial(counts, "Bash"), LIMITS)
    assert must_terminate(after_denial(after_success(counts, "Read"), "Bash"), LIMITS)


def test_a_successful_call_resets_the_count_of_its_tool() -> None:
    counts = after_success(after_denial({}, "Bash"), "Bash")
    assert not must_terminate(after_denial(counts, "Bash"), LIMITS)


def test_the_loop_of_107_attempts_at_mkdir_ends_at_the_second() -> None:
    counts: dict[str, int] = {}
    attempts = 0
    while attempts < 107 and not must_terminate(counts, LIMITS):
        counts = after_success(counts, "Bash", "ls")
        counts = after_denial(counts, "Bash", "mkdir x")
        attempts += 1
    assert attempts == 2


def test_the_number_of_counts_is_bounded() -> None:
    counts: dict[str, int] = {}
    for place in range(1000):
        counts = after_denial(counts, "Bash", f"mkdir {place}")
    assert len(counts) == COUNTED_MAX


def test_a_policy_can_allow_more_denials() -> None:
    counts = after_denial(after_denial({}, "Bash"), "Bash")
    assert not must_terminate(counts, PermissionLimits(max_denials=3))


def test_the_recovery_options_are_those_of_the_contract() -> None:
    assert [option.name for option in RECOVERY] == [
        "fix_permissions",
        "respawn_with_alternatives",
        "manual_intervention",
        "respawn_worker",
    ]
    assert termination("Bash", "no").report == "BLOCKED_PERMISSION: Bash - no"
