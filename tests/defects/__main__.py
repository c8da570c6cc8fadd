"""`make defects`: looks for every defect, and prints the table of the docs."""

from __future__ import annotations

import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.defects.defects import Defect, Found, find, load_defects


def _find(defect: Defect) -> Found:
    with tempfile.TemporaryDirectory(prefix="shiftboss-defect-") as folder:
        return find(defect, Path(folder))


def main(names: list[str]) -> int:
    defects = [defect for defect in load_defects() if not names or defect.name in names]
    print("| defect | found by |\n|---|---|")
    missed = 0
    with ThreadPoolExecutor(2) as pool:
        for found in pool.map(_find, defects):
            missed += found.how is None
            print(f"| {found.defect.about} | {found.how or '**nothing**'} |", flush=True)
    print(f"\n{len(defects) - missed} of {len(defects)} defects found")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
