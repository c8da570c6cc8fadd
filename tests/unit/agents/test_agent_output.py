"""Recorded output of agents: see agent_lines/, where only noise was removed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shiftboss.agents.output_events import (
    AgentActivity,
    Allowed,
    Denied,
    Finished,
    RateLimited,
    Signal,
    Usage,
)
from shiftboss.agents.usage_meter import DEFAULT_WINDOW, context_window
from tests.unit.agents.agent_readers import LINES, NOW, reader_of

PRICED: dict[str, Any] = {"input_price": 2.0, "output_price": 10.0}


def told(name: str, exit_code: int | None = 0, errors: str = "", **members: Any) -> list[Signal]:
    reader = reader_of(name.partition("-")[0], **members)
    lines = (LINES / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    signals = [signal for line in lines for signal in reader.read(line)]
    return signals + reader.ended(exit_code, errors)


def of(kind: type[Signal], signals: list[Signal]) -> list[Any]:
    return [signal for signal in signals if isinstance(signal, kind)]


def test_claude_reports_tokens_and_context_per_request_and_the_cost_at_the_end() -> None:
    usage = of(Usage, told("claude"))
    assert usage[0] == Usage(1200, 1, 0, None, 1201, 200_000)
    assert [report.context_tokens for report in usage] == [1201] * 9
    assert usage[-1] == (9600, 240, 0, pytest.approx(0.0324), 1201, 200_000)


def test_a_refused_edit_of_claude_is_reported_with_the_hooks_message() -> None:
    signals = told("claude")
    (denied,) = of(Denied, signals)
    assert (denied.tool, denied.operation) == ("Write", "/etc/outside.txt")
    assert denied.error.startswith("Shiftboss refused this")
    assert "contract of task t1" in denied.error
    tools = [signal.tool for signal in of(Allowed, signals)]
    assert tools == ["Read", "Edit", "Write", "Bash", "Bash"]
    assert AgentActivity("Edit /trees/t1/src/a.py") in signals
    assert AgentActivity("All done.") in signals
    assert of(Finished, signals) == [Finished(True, "Really done.")]


def test_activity_is_reported_when_it_begins_with_paths_relative_to_the_worktree() -> None:
    path = "/home/me/.local/state/shiftboss/0a1b/trees/s/bd-1.2/src/a.py"
    use = {"type": "tool_use", "id": "1", "name": "Read", "input": {"file_path": path}}
    line = json.dumps({"type": "assistant", "message": {"content": [use]}})
    assert reader_of("claude").read(line) == [AgentActivity("Read src/a.py")]


def test_denials_by_claudes_own_permissions_are_reported_once_each() -> None:
    denied = of(Denied, told("claude-permissions"))
    assert [(denial.tool, denial.operation) for denial in denied] == [
        ("Bash", "echo a > .git/zz; cat ~/.gitconfig; echo b >> /etc/zz-x"),
        ("Write", "/trees/t1/.claude/x.md"),
    ]


def test_a_denial_that_appears_only_in_the_result_is_reported() -> None:
    denial = {"tool_name": "Bash", "tool_use_id": "x", "tool_input": {"command": "ls"}}
    event = {"type": "result", "subtype": "success", "permission_denials": [denial]}
    (denied,) = of(Denied, reader_of("claude").read(json.dumps(event)))
    assert (denied.tool, denied.operation) == ("Bash", "ls")


@pytest.mark.parametrize(
    ("words", "tool"),
    [
        ("mkdir: cannot create directory 'x': Permission denied", "Bash"),
        ("Claude requested permissions to write to /x, but you haven't granted it yet.", "Bash"),
    ],
)
def test_a_denial_can_be_recognised_by_its_text_alone(words: str, tool: str) -> None:
    reader = reader_of("claude")
    use = {"type": "tool_use", "id": "1", "name": "Bash", "input": {"command": "mkdir x"}}
    reader.read(json.dumps({"type": "assistant", "message": {"content": [use]}}))
    result = {"type": "tool_result", "tool_use_id": "1", "is_error": True, "content": words}
    signals = reader.read(json.dumps({"type": "user", "message": {"content": [result]}}))
    assert signals == [Denied(tool, words, "mkdir x")]


def test_an_exhausted_claude_subscription_has_a_reset_time() -> None:
    signals = told("claude-subscription-limit", 1)
    assert of(RateLimited, signals) == [
        RateLimited("the five hour limit is reached", 1_794_780_840)
    ]
    (finished,) = of(Finished, signals)
    assert not finished.ok


def test_a_rate_limit_of_claudes_api_has_no_reset_time() -> None:
    (limited,) = of(RateLimited, told("claude-api-limit", 1))
    assert limited.until is None
    assert "rate limit" in limited.message


@pytest.mark.parametrize(
    ("info", "limited"),
    [
        ({"status": "allowed", "resetsAt": NOW + 60}, False),
        ({"status": "allowed_warning", "resetsAt": NOW + 60}, False),
        ({"status": "rejected", "resetsAt": NOW + 60, "isUsingOverage": True}, False),
        ({"status": "rejected", "resetsAt": NOW + 60, "isUsingOverage": False}, True),
    ],
)
def test_only_a_rejected_quota_event_of_claude_is_a_rate_limit(
    info: dict[str, Any], limited: bool
) -> None:
    event = {"type": "rate_limit_event", "rate_limit_info": info}
    signals = reader_of("claude").read(json.dumps(event))
    assert bool(signals) is limited


@pytest.mark.parametrize(("seconds", "kind"), [(2, AgentActivity), (900, RateLimited)])
def test_only_a_long_retry_delay_of_claude_is_a_rate_limit(
    seconds: int, kind: type[Signal]
) -> None:
    event = {"type": "system", "subtype": "api_retry", "error": "rate_limit", "error_status": 429}
    line = json.dumps(event | {"retry_delay_ms": seconds * 1000})
    (signal,) = reader_of("claude").read(line)
    assert isinstance(signal, kind)


def test_older_claude_versions_give_the_reset_time_in_the_result() -> None:
    text = "Claude AI usage limit reached|1794780840"
    event = {"type": "result", "subtype": "success", "is_error": True, "result": text}
    (limited,) = of(RateLimited, reader_of("claude").read(json.dumps(event)))
    assert limited.until == 1_794_780_840


def test_the_context_of_a_subagent_is_not_the_agents() -> None:
    reader = reader_of("claude")
    usage = {"input_tokens": 5, "cache_read_input_tokens": 1000, "output_tokens": 7}
    usage |= {"cache_creation_input_tokens": 200}
    event = {"type": "assistant", "message": {"id": "a", "usage": usage}}
    (own,) = reader.read(json.dumps(event))
    assert own == Usage(205, 7, 1000, None, 1212, DEFAULT_WINDOW)
    event["message"] = {"id": "b", "usage": usage}
    (helper,) = reader.read(json.dumps(event | {"parent_tool_use_id": "x"}))
    assert helper == Usage(410, 14, 2000, None, 1212, DEFAULT_WINDOW)
    assert reader.read(json.dumps(event)) == []


def test_codex_reports_tokens_at_the_end_and_refusals_on_stderr() -> None:
    signals = told("codex", **PRICED)
    dollars = pytest.approx((9600 * 2 + 240 * 10) / 1e6)
    assert of(Usage, signals) == [(9600, 240, 0, dollars, None, None)]
    (denied,) = of(Denied, signals)
    assert (denied.tool, denied.operation) == ("Bash", "echo hi > ../outside.txt")
    assert denied.error.startswith("Shiftboss refused this")
    assert "contract of task t1" in denied.error
    tools = [signal.tool for signal in of(Allowed, signals)]
    assert tools == ["Bash", "apply_patch", "Bash", "Bash"]
    assert AgentActivity("Bash git add -A && git commit -qm work") in signals
    assert of(Finished, signals) == [Finished(True, "Really done.")]


def test_denials_that_span_several_lines_of_codexs_errors_are_read() -> None:
    errors = (
        "T ERROR codex_core: error=Tool call blocked by PreToolUse hook: Shiftboss refused this.\n"
        "- a.py\n. Tool: mcp__x__y\nT ERROR other\n"
        "T ERROR codex_core: error=Command blocked by PreToolUse hook: no. Command: rm x"
    )
    assert reader_of("codex").ended(0, errors) == [
        Denied("mcp__x__y", "Shiftboss refused this.\n- a.py"),
        Denied("Bash", "no", "rm x"),
    ]


def test_an_exhausted_codex_limit_has_a_reset_time() -> None:
    (limited,) = of(RateLimited, told("codex-limit", 1))
    assert limited.until is not None
    assert "usage limit" in limited.message


def test_a_retry_of_codex_is_not_a_rate_limit() -> None:
    text = "Reconnecting... 1/5 (stream error: rate limit reached, try again in 2s)"
    signals = reader_of("codex").read(json.dumps({"type": "error", "message": text}))
    assert of(RateLimited, signals) == []


def test_cached_tokens_of_codex_are_counted_separately() -> None:
    usage = {"input_tokens": 1000, "cached_input_tokens": 900, "output_tokens": 10}
    line = json.dumps({"type": "turn.completed", "usage": usage})
    (used,) = of(Usage, reader_of("codex", **PRICED).read(line))
    assert used[:4] == (100, 10, 900, pytest.approx((190 * 2 + 10 * 10) / 1e6))


def test_a_command_declined_by_codex_is_a_denial() -> None:
    item = {"type": "command_execution", "command": "bash -lc ls", "status": "declined"}
    line = json.dumps({"type": "item.completed", "item": item})
    (denied,) = reader_of("codex").read(line)
    assert isinstance(denied, Denied)


def test_gemini_reports_tokens_at_the_end_and_refusals_with_the_tool() -> None:
    signals = told("gemini")
    assert of(Usage, signals) == [Usage(8400, 210)]
    (denied,) = of(Denied, signals)
    assert (denied.tool, denied.operation) == ("write_file", "/trees/t1/README.md")
    assert denied.error.startswith("Shiftboss refused this")
    assert of(Finished, signals) == [Finished(True, "Really done.")]


@pytest.mark.parametrize(
    ("errors", "hours"),
    [
        ("cause: { message: 'Please retry in 3600.5s.' }", 3600.5 / 3600),
        # Midnight in Google's time zone, where it is a quarter past noon now.
        ("", 12 - 13 / 60 - 20 / 3600),
    ],
)
def test_geminis_daily_quota_resets_when_its_errors_say_or_at_midnight(
    errors: str, hours: float
) -> None:
    signals = told("gemini-limit", 173, errors)
    (limited,) = of(RateLimited, signals)
    assert limited.until == pytest.approx(NOW + hours * 3600)
    assert "daily quota" in limited.message


def test_opencode_reports_tokens_and_context_per_step() -> None:
    signals = told("opencode", model="anthropic/claude-x", **PRICED)
    usage = of(Usage, signals)
    first, last = (1200 * 2 + 30 * 10) / 1e6, (7200 * 2 + 180 * 10) / 1e6
    assert usage[0] == (1200, 30, 0, pytest.approx(first), 1230, 200_000)
    assert usage[-1] == (7200, 180, 0, pytest.approx(last), 1230, 200_000)
    (denied,) = of(Denied, signals)
    assert (denied.tool, denied.operation) == ("write", "/trees/t1/README.md")
    assert denied.error.startswith("Shiftboss refused this")
    assert signals[-1] == Finished(True, "All done.")


def test_a_wait_of_hours_in_opencode_is_a_rate_limit() -> None:
    signals = told("opencode-limit", None)
    assert of(RateLimited, signals) == [RateLimited("Rate limit exceeded", 1_794_777_280.562)]


def test_a_wait_of_seconds_in_opencode_is_not_a_rate_limit() -> None:
    line = json.dumps({"shiftboss": "rate_limited", "message": "slow", "until": NOW + 5})
    assert reader_of("opencode").read(line) == [AgentActivity("waits for the model: slow")]


def test_a_provider_error_in_opencode_has_the_reset_time_in_a_header() -> None:
    data = {"message": "Too many", "statusCode": 429, "responseHeaders": {"retry-after": "60"}}
    event = {"type": "error", "error": {"name": "APIError", "data": data}}
    reader = reader_of("opencode")
    assert reader.read(json.dumps(event)) == [RateLimited("Too many", NOW + 60)]
    assert reader.ended(1, "") == [Finished(False, "Too many")]


def test_any_program_can_report_signals_itself() -> None:
    reader = reader_of("command")
    cases: list[tuple[dict[str, Any], list[Signal]]] = [
        (
            {"shiftboss": "usage", "input_tokens": 5, "output_tokens": 6, "dollars": 0.5},
            [Usage(5, 6, 0, 0.5)],
        ),
        (
            {"shiftboss": "usage", "context_tokens": 90, "context_window": 100},
            [Usage(context_tokens=90, context_window=100)],
        ),
        (
            {"shiftboss": "denied", "tool": "Bash", "error": "no"},
            [Denied("Bash", "no")],
        ),
        ({"shiftboss": "allowed", "tool": "Bash"}, [Allowed("Bash")]),
        (
            {"shiftboss": "rate_limited", "message": "m", "until": 12.5},
            [RateLimited("m", 12.5)],
        ),
        ({"shiftboss": "did", "text": "a\nb"}, [AgentActivity("a b")]),
        ({"shiftboss": "finished", "ok": True, "message": "m"}, [Finished(True, "m")]),
        ({"shiftboss": "finished"}, [Finished(False)]),
        ({"shiftboss": "else"}, []),
        ({"type": "result"}, []),
    ]
    for event, signals in cases:
        assert reader.read(json.dumps(event)) == signals
    assert reader.read("just words") == []
    assert reader.ended(0, "rate limit exceeded") == []
    assert reader.ended(1, "rate limit exceeded, retry in 60s") == [
        RateLimited("rate limit exceeded, retry in 60s", NOW + 60)
    ]


@pytest.mark.parametrize(
    ("members", "model", "window"),
    [
        ({}, "claude-sonnet-4-5", 200_000),
        ({}, "claude-sonnet-4-5[1m]", 1_000_000),
        ({}, "openai/gpt-5.2-codex", 272_000),
        ({}, "gemini-2.5-pro", 1_048_576),
        ({}, "unheard-of", DEFAULT_WINDOW),
        ({"context_tokens": 5000}, "claude-sonnet-4-5", 5000),
    ],
)
def test_the_context_window_comes_from_the_plan_or_the_model(
    members: dict[str, Any], model: str, window: int
) -> None:
    event = {"type": "system", "subtype": "init", "model": model}
    reader = reader_of("claude", **members)
    reader.read(json.dumps(event))
    message = {"id": "a", "usage": {"input_tokens": 10, "output_tokens": 0}}
    (usage,) = reader.read(json.dumps({"type": "assistant", "message": message}))
    assert isinstance(usage, Usage)
    assert usage.context_window == window
    assert members or context_window(model) == window


def test_activity_text_has_no_control_characters_and_can_be_encoded() -> None:
    (did,) = reader_of("command").read('{"shiftboss": "did", "text": "a\\u001b[2J\\u0000\\ud800"}')
    assert did == AgentActivity("a [2J ?")
