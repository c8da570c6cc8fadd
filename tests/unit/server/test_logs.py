"""The log of a long-running command: formats, secrets, forged lines, floods, files."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from shiftboss.system import logs as logs_module
from shiftboss.system.logs import (
    ACCESS_LOGGER,
    AUDIT_LOGGER,
    CLIENT_LOGGERS,
    CannotLog,
    JsonFormatter,
    Logs,
    LogSettings,
    TextFormatter,
    clean,
)

FORMATTERS = (TextFormatter(), JsonFormatter())


@pytest.fixture(autouse=True)
def restore_levels() -> Iterator[None]:
    loggers = [
        logging.getLogger(name) for name in ("", ACCESS_LOGGER, AUDIT_LOGGER, *CLIENT_LOGGERS)
    ]
    levels = [logger.level for logger in loggers]
    yield
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)


@contextmanager
def logging_to(file: Path, **settings: Any) -> Iterator[Logs]:
    """What is logged inside is in the file afterwards."""
    logs = Logs(LogSettings(file=file, **settings))
    try:
        yield logs
    finally:
        logs.stop()


def record(message: str, **facts: object) -> logging.LogRecord:
    made = logging.LogRecord("shiftboss.x", logging.WARNING, "f", 1, message, None, None)
    made.created = 1_767_600_000.25
    made.facts = facts
    return made


@pytest.mark.parametrize("level", ["debug", "info"])
def test_addresses_of_requests_are_not_logged(tmp_path: Path, level: str) -> None:
    with logging_to(tmp_path / "log", level=level):
        for name in CLIENT_LOGGERS:
            logging.getLogger(name).info("HTTP Request: GET http://127.0.0.1/events?after=0")
            logging.getLogger(name).warning("worth reading")
    logged = (tmp_path / "log").read_text()
    assert "HTTP Request" not in logged
    assert logged.count("worth reading") == len(CLIENT_LOGGERS)


def test_a_text_line_has_time_level_logger_message_and_facts() -> None:
    line = TextFormatter().format(record("refused", actor="alice", operation="/mcp waive", n=3))
    time, rest = line.split(" ", 1)
    assert time == "2026-01-05T08:00:00.250Z"
    assert rest == 'WARNING shiftboss.x: refused actor=alice operation="/mcp waive" n=3'


def test_a_json_line_is_one_object() -> None:
    document = json.loads(JsonFormatter().format(record("refused", actor="alice", status=403)))
    assert document == {
        "time": "2026-01-05T08:00:00.250+00:00",
        "level": "warning",
        "logger": "shiftboss.x",
        "message": "refused",
        "actor": "alice",
        "status": 403,
    }


@pytest.mark.parametrize("formatter", FORMATTERS)
@pytest.mark.parametrize(
    "evil",
    [
        "a\nb",
        "a\rb",
        "\x1b[31mred",
        "\x9b31m",
        "a\u2028b",
        "\u202ecba",
        "\u200fa\u200e\u061c",
        "\ufeffa\u206a\ufff9\U000e0041",
    ],
)
def test_no_value_can_forge_a_line_or_steer_a_terminal(
    formatter: logging.Formatter, evil: str
) -> None:
    line = formatter.format(record(evil, actor=evil))
    assert "\n" not in line
    assert all(character.isprintable() for character in line), ascii(line)


@pytest.mark.parametrize("formatter", FORMATTERS)
def test_no_line_of_a_traceback_passes_for_a_line_of_the_log(formatter: logging.Formatter) -> None:
    made = record("failed")
    error = ValueError("bad\n2026-01-05T08:00:00.250Z INFO forged: line\x1b[2J")
    made.exc_info = (ValueError, error, None)
    first, *others = formatter.format(made).split("\n")
    assert first.startswith(("2026", "{"))
    assert all(line.startswith("    ") for line in others)
    assert "\x1b" not in "".join(others)


SECRETS = {
    "Authorization: Bearer abc.def": "abc.def",
    "used sbt_0123456789abcdef": "sbt_0123",
    "cannot use postgresql://bob:" + "swordfish@db:5432/x": "swordfish",
    "GET /x?token=swordfish&a=1": "swordfish",
    "password=swordfish failed": "swordfish",
    "GITHUB_TOKEN=swordfish make": "swordfish",
    "DB_PASSWORD='swordfish'": "swordfish",
    '{"api_key": "swordfish"}': "swordfish",
    "is " + "sk-ant-" + "api03-abcdefghijklmnop right?": "abcdefg",
    "key " + "AKIA" + "ABCDEFGHIJKLMNOP": "ABCDEFG",
    "use " + "ghp_" + "a1" * 18: "a1a1",
    "signed with " + "whsec_" + "b2" * 16: "b2b2",
    "see https://hooks.slack.com/services/T0/B0/swordfish": "swordfish",
    "eyJ" + "hbGciOiJIUzI1NiJ9." + "eyJ" + "zdWIiOiIxMjM0NTYifQ.c2lnbmF0dXJl": "c2lnbmF0",
}


@pytest.mark.parametrize(("text", "secret"), SECRETS.items())
@pytest.mark.parametrize("formatter", FORMATTERS)
def test_what_looks_like_a_secret_is_hidden(
    formatter: logging.Formatter, text: str, secret: str
) -> None:
    line = formatter.format(record(text, path=text))
    assert secret not in line
    assert "[hidden]" in line


def test_ordinary_text_stays_as_it_is() -> None:
    text = "task t1 of swarm s: 3 tokens used, see http://127.0.0.1:8765/swarm/s"
    assert clean(text) == text
    text = "token: is it needed? max_tokens=5, risk-averse, \N{WAVING BLACK FLAG}\u200d"
    assert clean(text) == text


def test_the_level_decides_what_is_shown(tmp_path: Path) -> None:
    file = tmp_path / "log"
    with logging_to(file, level="warning") as logs:
        logging.getLogger("shiftboss.y").info("hidden")
        logging.getLogger("shiftboss.y").warning("shown")
        logs.set_level("info")
        logging.getLogger("shiftboss.y").info("now shown")
        assert not logging.getLogger(ACCESS_LOGGER).isEnabledFor(logging.INFO)
        logs.set_level("debug")
        assert logging.getLogger(ACCESS_LOGGER).isEnabledFor(logging.INFO)
    assert [line.split(": ")[1] for line in file.read_text().splitlines()] == ["shown", "now shown"]


def test_audit_lines_have_a_file_of_their_own_at_any_level(tmp_path: Path) -> None:
    log, audit = tmp_path / "log", tmp_path / "audit"
    with logging_to(log, level="error", audit_file=audit):
        logging.getLogger(AUDIT_LOGGER).info("change", extra={"facts": {"actor": "alice"}})
        logging.getLogger("shiftboss.y").error("broken")
    assert "change" not in log.read_text()
    assert [json.loads(line)["actor"] for line in audit.read_text().splitlines()] == ["alice"]


def test_a_moved_file_is_begun_anew(tmp_path: Path) -> None:
    file = tmp_path / "log"
    with logging_to(file) as logs:
        file.rename(tmp_path / "log.1")
        logs.reopen()
        logging.getLogger("shiftboss.y").warning("after")
    assert "after" in file.read_text()


def test_a_flood_is_dropped_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs_module, "LINES_WAITING_MAX", 2)
    file = tmp_path / "log"
    logs = Logs(LogSettings(file=file))
    logs._listener.stop()  # nobody writes
    for number in range(7):
        logging.getLogger("shiftboss.y").warning("line %d", number)
    logs._listener.start()
    logs._listener.stop()
    logging.getLogger("shiftboss.y").warning("later")
    logs._listener.start()
    logs.stop()
    lines = [line.split(": ", 1)[1] for line in file.read_text().splitlines()]
    assert lines[:2] == ["line 0", "line 1"]
    assert lines[2].startswith("5 lines were dropped")
    assert lines[3:] == ["later"]


def test_a_file_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CannotLog, match="No such file or directory"):
        Logs(LogSettings(file=tmp_path / "missing" / "log"))


def test_the_examples_of_the_reference_are_what_is_logged() -> None:
    reference = Path(__file__).parents[3] / "docs" / "reference.md"
    _, _, section = reference.read_text(encoding="utf-8").partition("\n## Logs\n")
    as_json = next(line for line in section.splitlines() if line.startswith('{"time"'))
    as_text = next(line for line in section.splitlines() if line.startswith("2026-"))
    document = json.loads(as_json)
    facts = {name: document[name] for name in list(document)[4:]}
    made = record("change", **facts)
    made.name, made.levelno, made.levelname = AUDIT_LOGGER, logging.INFO, "INFO"
    assert JsonFormatter().format(made) == as_json
    assert TextFormatter().format(made) == as_text
