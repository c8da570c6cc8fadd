"""The deliberate defects: they still apply, and two of them are looked for here."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.defects.defects import Defect, find, load_defects

DEFECTS = load_defects()
# The first seeds find these. `make defects` looks for all of them.
FOUND_QUICKLY = ("no-receipt", "epoch-not-raised")


@pytest.mark.parametrize("defect", DEFECTS, ids=[defect.name for defect in DEFECTS])
def test_the_text_that_a_defect_replaces_is_there_once(defect: Defect) -> None:
    assert defect.applies(), f"{defect.file} has changed: adapt tests/defects/defects.toml"
    assert defect.old != defect.new


def test_there_are_thirty_defects_with_different_names() -> None:
    assert len(DEFECTS) >= 30
    assert len({(defect.file, defect.old) for defect in DEFECTS}) >= 30
    for defect in DEFECTS:
        named = defect.test.split("::")[0] if defect.test is not None else None
        assert named is None or Path(named).is_file()


@pytest.mark.requirement("OWN-09")
@pytest.mark.parametrize("name", FOUND_QUICKLY)
def test_a_defect_is_found(name: str, tmp_path: Path) -> None:
    defect = next(defect for defect in DEFECTS if defect.name == name)
    assert find(defect, tmp_path, seeds_tried=10).how is not None
