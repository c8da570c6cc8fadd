"""The lock of a run, where it cannot be written."""

from __future__ import annotations

from pathlib import Path

import pytest

from shiftboss.orchestrator.run.run_lock import hold_run_lock
from shiftboss.system.state_folder import BadStateFolder


def test_a_folder_that_cannot_be_written_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("")
    with (
        pytest.raises(BadStateFolder, match=r"the lock .*/runs/demo/lock cannot be used"),
        hold_run_lock(tmp_path / "runs" / "demo", "demo", "clean"),
    ):
        pass
