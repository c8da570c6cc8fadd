"""The output of an agent as people read it with `shiftboss logs`, and the sessions in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shiftboss.agents.registry import AGENTS, BRANDS
from shiftboss.attempts.agent_lines import AgentLines
from shiftboss.attempts.log_tail import LogTail
from shiftboss.orchestrator.guardian.output import OutputLog
from shiftboss.protocol.plan import PlanAgent

LINES = Path(__file__).with_name("agent_lines")


def shown(kind: str, lines: list[str]) -> list[str]:
    agent = AGENTS[kind]
    agent_lines = AgentLines(agent.reader(PlanAgent(kind=kind)), agent.report_member)
    return [str(told) for line in lines for told in agent_lines.read(line)]


@pytest.mark.requirement("OWN-11")
@pytest.mark.parametrize("kind", BRANDS)
def test_what_an_agent_says_and_does_is_readable(kind: str) -> None:
    lines = shown(kind, (LINES / f"{kind}.jsonl").read_text().splitlines())
    assert len(lines) > 1
    assert not [line for line in lines if line.startswith("{")]


@pytest.mark.requirement("OWN-11")
def test_plain_lines_denials_and_failures_are_shown_without_control_characters() -> None:
    lines = [
        "compiling \x1b[2J",
        json.dumps({"shiftboss": "did", "text": "writes a test"}),
        json.dumps({"shiftboss": "usage", "input_tokens": 7}),
        json.dumps({"shiftboss": "denied", "tool": "Bash", "error": "no\nway"}),
        json.dumps({"shiftboss": "finished", "ok": False, "message": "gave up"}),
        json.dumps({"of another program": 1}),
        "{ not JSON",
        "{" + "x" * 5000,
    ]
    assert shown("command", lines) == [
        r"compiling \x1b[2J",
        "writes a test",
        "denied: Bash: no\n  way",
        "failed: gave up",
        '{"of another program": 1}',
        "{ not JSON",
        "{" + "x" * 1999 + "...",
    ]


@pytest.mark.requirement("OWN-11")
def test_a_log_is_read_across_its_rotation(tmp_path: Path) -> None:
    file = tmp_path / "output.log"
    log = OutputLog(str(file), bytes_max=20)
    with LogTail(file) as tail:
        assert list(tail.new_lines(to_end=False)) == []
        log.write(b"one\ntw")
        assert list(tail.new_lines(to_end=False)) == ["one"]
        log.write(b"o\n")
        log.write(b"three\nfour")  # does not fit: the log becomes output.log.1
        assert list(tail.new_lines(to_end=False)) == ["two", "three"]
        assert list(tail.new_lines(to_end=True)) == ["four"]
    with LogTail(file) as tail:
        assert list(tail.new_lines(to_end=True)) == ["one", "two", "three", "four"]


@pytest.mark.requirement("OWN-12")
@pytest.mark.parametrize(
    ("kind", "line", "argv", "variables"),
    [
        (
            "claude",
            {"type": "system", "subtype": "init", "session_id": "s-1"},
            ["claude", "--resume", "s-1"],
            {},
        ),
        (
            "opencode",
            {"type": "text", "sessionID": "ses_1", "part": {}},
            ["opencode", "--session", "ses_1"],
            {"OPENCODE_DB": "/scratch/opencode/sessions.db"},
        ),
    ],
)
def test_a_session_is_found_in_the_output_and_continued(
    kind: str, line: dict[str, object], argv: list[str], variables: dict[str, str]
) -> None:
    agent = AGENTS[kind]
    assert agent.why_no_resume == ""
    assert agent.session_of("noise") is None
    session = agent.session_of(json.dumps(line))
    assert session is not None
    command = agent.resume(PlanAgent(kind=kind), session, Path("/scratch"))
    assert (command.argv, dict(command.variables)) == (argv, variables)


@pytest.mark.parametrize("kind", ["codex", "gemini", "command"])
def test_other_agents_say_why_a_session_cannot_be_continued(kind: str) -> None:
    assert AGENTS[kind].why_no_resume
    assert AGENTS[kind].session_of('{"session_id": "s-1", "sessionID": "s-1"}') is None
