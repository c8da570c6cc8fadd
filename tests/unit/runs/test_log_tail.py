"""Reading the log of an agent while the guardian writes and rotates it."""

from __future__ import annotations

from pathlib import Path
from typing import IO

import pytest

from shiftboss.attempts import log_tail
from shiftboss.attempts.log_tail import LogTail
from shiftboss.system.json_files import open_regular


def test_lines_written_just_before_a_rotation_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, opens = tmp_path / "output.log", open_regular
    log.write_text("first\n")
    with LogTail(log) as tail:

        def rotate_first(path: Path) -> IO[bytes] | None:
            """At the worst moment: after the tail has read to the end."""
            monkeypatch.undo()
            with log.open("a") as file:
                file.write("last of the old\n")
            log.rename(tmp_path / "output.log.1")
            log.write_text("new\n")
            return opens(path)

        monkeypatch.setattr(log_tail, "open_regular", rotate_first)
        assert list(tail.new_lines(to_end=True)) == ["first", "last of the old", "new"]
