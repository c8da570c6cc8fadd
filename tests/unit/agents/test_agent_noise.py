"""Whatever an agent prints, its reader continues."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shiftboss.agents.output_events import Usage
from shiftboss.agents.registry import AGENTS
from tests.unit.agents.agent_readers import LINES, READERS, reader_of

RECORDED = sorted(path.name for path in LINES.iterdir())

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
# Members that the readers use, with arbitrary values.
KEYS = sorted(
    {
        *("type", "subtype", "message", "content", "usage", "id", "model", "error", "result"),
        *("permission_denials", "modelUsage", "errors", "tool_result_meta", "rate_limit_info"),
        *("part", "state", "tokens", "cost", "item", "status", "stats", "shiftboss", "until"),
        *("tool_use_id", "tool_name", "tool_input", "mcp_servers", "is_error", "text", "data"),
        *("responseHeaders", "changes", "api_error_params", "retry_delay_ms", "total_cost_usd"),
    }
)
KINDS = st.sampled_from(
    [
        *("system", "assistant", "user", "result", "rate_limit_event", "item.completed", "error"),
        *("turn.completed", "turn.failed", "tool_use", "tool_result", "step_finish", "text"),
        *("message", "init"),
    ]
)
EVENTS = st.builds(
    lambda kind, members: {"type": kind, **members},
    KINDS,
    st.dictionaries(st.sampled_from(KEYS), st.deferred(lambda: MEMBERS), max_size=5),
)
MEMBERS: st.SearchStrategy[Any] = JSON_VALUES | st.dictionaries(
    st.sampled_from(KEYS), JSON_VALUES, max_size=4
)


@settings(max_examples=100, deadline=None)
@given(events=st.lists(EVENTS, max_size=4), errors=st.text(max_size=50))
def test_no_event_breaks_a_reader(events: list[Any], errors: str) -> None:
    """Of any kind. Making the events takes longer than reading them, so all readers get them."""
    for kind in READERS:
        reader = reader_of(kind, input_price=2.0, output_price=10.0)
        signals = [signal for event in events for signal in reader.read(json.dumps(event))]
        signals += reader.ended(1, errors)
        for signal in signals:
            json.dumps(signal).encode()
            if isinstance(signal, Usage):
                assert all(number is None or 0 <= number < 1e18 for number in signal), kind


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("recorded", RECORDED)
def test_partial_lines_and_lines_of_other_agents_do_not_break_a_reader(
    kind: str, recorded: str
) -> None:
    reader = reader_of(kind)
    for line in (LINES / recorded).read_text(encoding="utf-8").splitlines():
        for part in (line[: len(line) // 2], line[:-1], line[1:], line):
            reader.read(part)
    reader.ended(None, recorded)


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize(
    "line",
    [
        "",
        "{",
        "[]",
        '"text"',
        "null",
        "{" * 100_000,
        '{"type":' + "[" * 100_000,
        '{"type": ' + "9" * 10_000 + "}",
        '{"a": "' + "x" * 10_000_000 + '"}',
        "\x00\xff\ud800",
        "blocked by PreToolUse hook: " * 100_000,
    ],
    ids=range(11),
)
def test_noise_yields_no_signals(kind: str, line: str) -> None:
    reader = reader_of(kind)
    assert reader.read(line) == []


def test_every_agent_is_tested_with_noise() -> None:
    assert set(READERS) == set(AGENTS)
