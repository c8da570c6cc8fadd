"""The version is in one place, and the changelog knows it."""

from __future__ import annotations

import re
from pathlib import Path

from shiftboss import __version__

ROOT = Path(__file__).parents[3]


def test_the_newest_release_of_the_changelog_is_this_version_and_releases_increase() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    releases = re.findall(r"^## (\d+)\.(\d+)\.(\d+)\b", text, re.MULTILINE)
    numbers = [tuple(map(int, release)) for release in releases]
    assert numbers, "there is no heading of a release"
    assert ".".join(map(str, numbers[0])) == __version__
    assert numbers == sorted(set(numbers), reverse=True)


def test_the_version_is_written_in_one_place() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    assert 'dynamic = ["version"]' in project
    assert not re.search(r'^version = "', project, re.MULTILINE)
