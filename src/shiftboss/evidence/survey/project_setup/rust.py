"""Criteria of Cargo packages."""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Iterator

from shiftboss.evidence.survey.imports.cargo import cargo_manifest
from shiftboss.evidence.survey.imports.rust import SUFFIXES
from shiftboss.evidence.survey.ownership import OwnedFiles

_MANIFEST = "Cargo.toml"


def criteria(owned: OwnedFiles) -> Iterator[str]:
    for project in owned.projects(SUFFIXES, (_MANIFEST,)):
        package = cargo_manifest(project.folder, owned.repo).get("package")
        name = package.get("name") if isinstance(package, dict) else None
        # A manifest in the top folder knows all packages.
        is_below = _MANIFEST not in owned.repo.files
        place = ["--manifest-path", posixpath.join(project.folder, _MANIFEST)] if is_below else []
        what = ["-p", str(name)] if name else []
        yield "Tests pass: " + shlex.join(["cargo", "test", *place, *what])
        yield "Type check passes: " + shlex.join(["cargo", "check", *place, *what])
