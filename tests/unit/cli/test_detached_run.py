"""What a run in the background prints when it has started."""

from __future__ import annotations

from pathlib import Path

import pytest

from shiftboss.cli.commands.runs.background import RunFolder
from shiftboss.orchestrator.run.run_files import write_run_facts
from shiftboss.system.state_folder import ServerRecord, make_state_folder, write_server_file

OWN = "http://127.0.0.1:32969"


@pytest.mark.parametrize(
    ("address", "end"), [(OWN, "demo\n"), ("http://host:1", "demo --server http://host:1\n")]
)
def test_the_server_is_named_only_if_the_folder_does_not_lead_to_it(
    address: str,
    end: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SHIFTBOSS_DB", raising=False)
    state = make_state_folder(tmp_path / ".shiftboss")
    folder = state / "runs" / "demo"
    folder.mkdir(parents=True)
    write_server_file(state, ServerRecord(OWN, 1, "now"))
    write_run_facts(folder, tmp_path / "plan.yaml", address)
    RunFolder(folder, tmp_path / "plan.yaml", [])._show_started(7, folder / "log")
    assert f"  status  shiftboss status {end}" in capsys.readouterr().out
