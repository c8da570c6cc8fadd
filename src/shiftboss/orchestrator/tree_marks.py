"""Which folders of work trees were made here. No other is ever removed: the place of the trees is
named by people, who may keep things of their own there."""

from __future__ import annotations

import os
from pathlib import Path

from shiftboss.errors import TreeUnavailable


class Marks:
    """A file for each tree, in a folder of their own. It is there before the tree is, and until
    after the tree has gone."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def set(self, tree: Path) -> None:
        mark = self._mark(tree)
        mark.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        mark.touch()

    def drop(self, tree: Path) -> None:
        self._mark(tree).unlink(missing_ok=True)

    def has(self, tree: Path) -> bool:
        return self._mark(tree).is_file()

    def refuse_foreign(self, tree: Path) -> None:
        """Raises TreeUnavailable when something of somebody else's is there."""
        if os.path.lexists(tree) and not self.has(tree):
            raise TreeUnavailable(
                f"{tree} is there already, and no work tree of ours",
                field="trees",
                hint="move it away, or name another folder for the work trees",
            )

    def _mark(self, tree: Path) -> Path:
        return self._folder / tree.parent.name / tree.name
