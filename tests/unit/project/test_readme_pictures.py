"""The pictures of the README: all there, light and dark, and small enough to load."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PICTURE_BYTES_MAX = 200_000
SESSION_BYTES_MAX = 1_500_000
TOTAL_BYTES_MAX = 2_000_000


def shown() -> set[str]:
    in_markdown = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", README)
    in_html = re.findall(r'(?:src|srcset)="([^"]+)"', README)
    return {*in_markdown, *in_html}


@pytest.mark.requirement("OWN-04")
def test_pictures_of_the_readme_exist_and_are_small() -> None:
    pictures = [ROOT / name for name in sorted(shown())]
    assert [path for path in pictures if not path.is_file()] == []
    for path in pictures:
        limit = SESSION_BYTES_MAX if path.stem == "session" else PICTURE_BYTES_MAX
        assert path.stat().st_size < limit, path
    assert sum(path.stat().st_size for path in pictures) < TOTAL_BYTES_MAX


@pytest.mark.requirement("OWN-04")
def test_every_picture_of_the_page_is_shown_light_and_dark() -> None:
    files = {path.name for path in (ROOT / "docs" / "pictures").iterdir()}
    assert {f"docs/pictures/{name}" for name in files} == {
        name for name in shown() if name.startswith("docs/pictures/")
    }
    light = {name.removesuffix("-light.png") for name in files if name.endswith("-light.png")}
    dark = {name.removesuffix("-dark.png") for name in files if name.endswith("-dark.png")}
    assert light == dark
    assert {"board", "task", "graph", "inbox"} <= light
