"""The state folder keeps itself out of git."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from shiftboss.system.state_folder import make_state_folder
from tests.running import RunningServer

pytestmark = pytest.mark.requirement("OWN-02")


def test_git_never_stages_the_signing_key_of_a_server(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    state = tmp_path / ".shiftboss"
    server = RunningServer(state / "shiftboss.db").start()
    try:
        subprocess.run(["git", "-C", tmp_path, "add", "."], check=True)
        staged = subprocess.check_output(["git", "-C", tmp_path, "ls-files"])
    finally:
        server.close()
    assert (state / "receipt-key.pem").exists()
    assert staged == b""


def test_only_a_folder_of_ours_is_ignored(tmp_path: Path) -> None:
    made = make_state_folder(tmp_path / "deep" / "state")
    assert made.stat().st_mode & 0o777 == 0o700
    assert (made / ".gitignore").read_text() == "*\n"
    somebody_elses = tmp_path / "repo"
    somebody_elses.mkdir()
    assert list(make_state_folder(somebody_elses).iterdir()) == []
    # A folder of an older version gets it at the next start; what a user wrote there is kept.
    older = tmp_path / ".shiftboss"
    older.mkdir()
    ignored = make_state_folder(older) / ".gitignore"
    ignored.write_text("# mine\n")
    make_state_folder(older)
    assert ignored.read_text() == "# mine\n"
