"""The state folder keeps itself out of git, and other users out of itself."""

from __future__ import annotations

import logging
import subprocess
from pathlib import Path

import pytest

from shiftboss.system.state_folder import BadStateFolder, make_state_folder
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


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o707, 0o722])
def test_our_own_folder_that_others_can_write_to_is_repaired_loudly(
    tmp_path: Path, mode: int, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / ".shiftboss"
    folder.mkdir()
    folder.chmod(mode)
    with caplog.at_level(logging.WARNING):
        make_state_folder(folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert f"other users could write to {folder} (its mode is {mode:o})" in caplog.text


def test_another_folder_that_everybody_can_write_to_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(BadStateFolder, match="other users can write to"):
        make_state_folder(folder)
    running = RunningServer(folder / "shiftboss.db")
    with pytest.raises(AssertionError, match="its mode is 777"):
        running.start()
    running.close()


@pytest.mark.parametrize(("mode", "is_named"), [(0o1777, False), (0o775, True), (0o755, False)])
def test_a_folder_in_which_nobody_replaces_our_files_is_used_as_it_is(
    tmp_path: Path, mode: int, is_named: bool, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    folder.chmod(mode)
    make_state_folder(folder)
    assert folder.stat().st_mode & 0o7777 == mode
    assert ("the group of" in caplog.text) is is_named
