"""Criteria of Makefiles, for projects of any other kind."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterator

from shiftboss.evidence.survey.ownership import OwnedFiles

_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
_TARGETS = ("test", "check")
# No test can check prose.
_PROSE = (".md", ".rst", ".txt", ".adoc", ".png", ".jpg", ".jpeg", ".gif", ".svg", ".pdf")


def criteria(owned: OwnedFiles) -> Iterator[str]:
    files = [name for name in owned.files if not name.lower().endswith(_PROSE)]
    folders = [posixpath.dirname(name) for name in files] + owned.new_folders
    makefiles = {owned.repo.nearest(folder, *_MAKEFILES) for folder in folders} - {None}
    for makefile in sorted(filter(None, makefiles)):
        text = owned.repo.read(makefile) or ""
        for target in _TARGETS:
            if re.search(rf"^{target}\s*::?(?!=)", text, re.MULTILINE):
                folder = posixpath.dirname(makefile)
                place = ["-C", folder] if folder else []
                yield "Command passes: " + shlex.join(["make", *place, target])
                break
