"""What a run has told people, kept beside the logs of its attempts for those who look later."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

NAME: Final = "run.log"


class RunLog:
    """A listener of the board. A disk that is full is no reason to end the run."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / NAME

    def __call__(self, bead_id: str, text: str) -> None:
        words = " ".join((f"{bead_id}: {text}" if bead_id else text).split())
        with contextlib.suppress(OSError), self._file.open("a", encoding="utf-8") as log:
            log.write(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}  {words}\n")
