"""What a server reads again: each part by itself, and the log level."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from shiftboss.server.reloading import LogReload, Reloads
from shiftboss.system.logs import Logs, LogSettings
from shiftboss.system.token_files import BadToken, read_token_lines

pytestmark = pytest.mark.anyio


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[Logs]:
    before = logging.root.level
    logs = Logs(LogSettings("warning", "text", tmp_path / "log", None, False))
    yield logs
    logs.stop()
    logging.root.setLevel(before)


async def test_the_log_level_comes_from_a_file_and_goes_with_it(logs: Logs, tmp_path: Path) -> None:
    reloads, part = Reloads(), LogReload(logs, tmp_path, "warning")
    reloads.add("log level", part)
    file = tmp_path / "log-level"
    assert await part() == []
    file.write_text("debug\n")
    assert await part() == ["warning -> debug"]
    assert logging.root.level == logging.DEBUG
    file.write_text("loud\n")
    await reloads.read_again()
    assert logging.root.level == logging.DEBUG
    file.unlink()
    assert await part() == ["debug -> warning"]


async def test_a_part_that_fails_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    reloads = Reloads()

    async def refuse() -> list[str]:
        raise BadToken("no token")

    async def fail() -> list[str]:
        raise RuntimeError("a defect")

    async def change() -> list[str]:
        return ["a -> b"]

    for name, part in (("one", refuse), ("two", fail), ("three", change)):
        reloads.add(name, part)
    await reloads.read_again()
    assert [record.getMessage() for record in caplog.records] == [
        "reload: one stays as it was: no token",
        "reload: two stays as it was",
        "reload: three: a -> b",
    ]


@pytest.mark.parametrize("content", ["", "\n \n", "a\0b\n", "ä\n", "t\n" * 11, "x" * 5000])
def test_a_token_file_that_cannot_be_used_is_refused(tmp_path: Path, content: str) -> None:
    file = tmp_path / "token"
    file.touch(mode=0o600)
    file.write_text(content)
    with pytest.raises(BadToken):
        read_token_lines(file)


def test_every_line_of_a_token_file_is_a_token_unless_others_can_read_it(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.touch(mode=0o600)
    file.write_text("new\n\n old \n")
    assert read_token_lines(file) == ["new", "old"]
    file.chmod(0o640)
    with pytest.raises(BadToken, match="other users"):
        read_token_lines(file)
