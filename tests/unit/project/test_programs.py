"""Programs that tests need are installed in CI, and asked for on a laptop."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.programs import DebianPackages

PACKAGES = {"rule": ("ruler",), "compass": ("compasses", "pencils"), "paper": ("stationery",)}
# "Installs" a program for each package, and notes how it was called.
APT_GET = """#!/bin/sh
echo "$@" >> {folder}/calls
case "$*" in *install*)
  for name in {installs}; do echo > {folder}/$name; /bin/chmod +x {folder}/$name; done
esac
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """All that is on the PATH. It has the paper already."""
    write_program(tmp_path / "paper", "")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CI", "1")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    return tmp_path


def write_program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def debian(folder: Path) -> DebianPackages:
    return DebianPackages(PACKAGES, folder / "lock")


def installs(folder: Path, *names: str) -> None:
    write_program(folder / "apt-get", APT_GET.format(folder=folder, installs=" ".join(names)))


def calls(folder: Path) -> list[str]:
    return [line.split("600 ")[1] for line in (folder / "calls").read_text().splitlines()]


def test_one_call_installs_all_that_are_missing(folder: Path) -> None:
    installs(folder, "rule", "compass")
    packages = debian(folder)
    assert packages.program("compass") == str(folder / "compass")
    assert packages.program("rule") == str(folder / "rule")
    # Another process of the tests has nothing left to install.
    assert debian(folder).program("rule") == str(folder / "rule")
    assert calls(folder) == [
        "update",
        "install --yes --no-install-recommends ruler compasses pencils",
    ]


def test_a_program_that_cannot_be_installed_fails_in_ci(folder: Path) -> None:
    installs(folder, "rule")
    packages = debian(folder)
    for _ in range(2):
        with pytest.raises(pytest.fail.Exception, match="apt-get install compasses pencils"):
            packages.program("compass")
    assert len(calls(folder)) == 2, "it is not tried again"


def test_nothing_is_installed_without_the_rights(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installs(folder, "rule")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(pytest.fail.Exception, match="rule is not installed"):
        debian(folder).program("rule")
    assert not (folder / "calls").exists()


def test_a_laptop_is_told_what_is_missing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installs(folder, "rule")
    monkeypatch.delenv("CI")
    with pytest.raises(pytest.skip.Exception, match="rule is not installed: apt-get install ruler"):
        debian(folder).program("rule")
    assert debian(folder).program("paper") == str(folder / "paper")
    assert not (folder / "calls").exists()
