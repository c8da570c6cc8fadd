"""What the local runner remembers: one file for each commit that it has looked after."""

from __future__ import annotations

import hashlib
import logging
import os
from pathlib import Path
from typing import Final

from pydantic import Field, ValidationError

from shiftboss.evidence.ci.run_reports import all_ended
from shiftboss.protocol.ci import CiDemand, CiRun
from shiftboss.protocol.fields import Answer

log = logging.getLogger(__name__)

COMMITS_MAX: Final = 200
_LAST_RUN: Final = "last-run"


class Record(Answer):
    """`plan` tells one set of jobs from another: a changed policy makes a new run. `dependencies`
    are the commits of the repos that it is built on."""

    sha: str
    plan: str
    runs: list[CiRun]
    dependencies: dict[str, str] = Field(default={})

    @property
    def has_ended(self) -> bool:
        return all_ended(self.runs)


class Records:
    """All of this is blocking; each repository has a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load(self, demand: CiDemand, sha: str) -> Record | None:
        path = self._path(demand, sha)
        try:
            return Record.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            return None
        except ValidationError:
            log.warning("%s is damaged; its jobs are run again", path)
            return None

    def save(self, demand: CiDemand, record: Record) -> None:
        _replace(self._path(demand, record.sha), record.model_dump_json().encode())

    def next_number(self, demand: CiDemand) -> int:
        """Runs are counted for each repository, as forges do."""
        path = self._path(demand, "").with_name(_LAST_RUN)
        number = int(path.read_text()) + 1 if path.exists() else 1
        _replace(path, str(number).encode())
        return number

    def forget_old(self, demand: CiDemand) -> None:
        folder = self._path(demand, "").parent
        files = sorted(folder.glob("*.json"), key=lambda file: file.stat().st_mtime, reverse=True)
        for file in files[COMMITS_MAX:]:
            file.unlink(missing_ok=True)

    def _path(self, demand: CiDemand, sha: str) -> Path:
        repository = hashlib.sha256(f"{demand.repo}\0{demand.repo_path}".encode()).hexdigest()
        return self._folder / repository[:32] / f"{sha}.json"


def _replace(path: Path, content: bytes) -> None:
    """A crash leaves the old file or the new one."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.new")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
