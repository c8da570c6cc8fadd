"""The success criteria of a task: those that its description states, and those that follow from the
setup of the project at the base commit."""

from __future__ import annotations

import re
from collections.abc import Iterator

from shiftboss.evidence.survey.ownership import OwnedFiles
from shiftboss.evidence.survey.project_setup import go, make, node, python, rust
from shiftboss.protocol.handoffs import CRITERIA_MAX
from shiftboss.rules.claims.criteria import CriterionKind, parse_criterion
from shiftboss.rules.handoffs.described_criteria import described_criteria

# A new kind of project is registered here, and its manifests in _MANIFEST.
_SETUPS = (python, node, rust, go)
_MANIFEST = re.compile(
    r"(?:.*/)?(?:pyproject\.toml|setup\.cfg|\.?mypy\.ini|package\.json|pnpm-workspace\.yaml|go\.mod"
    r"|Cargo\.toml|GNUmakefile|[Mm]akefile|[tj]sconfig[^/]*\.json)"
)
_DEPENDENCY_FOLDERS = frozenset(("node_modules", "vendor", "site-packages"))


def is_manifest(path: str) -> bool:
    """Whether the file is read to find criteria or imports."""
    return bool(_MANIFEST.fullmatch(path)) and _DEPENDENCY_FOLDERS.isdisjoint(path.split("/"))


def success_criteria(title: str, description: str, owned: OwnedFiles) -> list[str]:
    """At least one criterion. A criterion of the description replaces generated ones of its kind.

    Raises ValueError for a criterion in the description that cannot be run.
    """
    described = described_criteria(description)
    kinds = {kind for text in described if (kind := _kind(text)) is not None}
    generated = list(_generated(owned, kinds))
    criteria = list(dict.fromkeys([*described, *generated]))[:CRITERIA_MAX]
    return criteria or [f"Done as the title says: {' '.join(title.split())}"]


def _generated(owned: OwnedFiles, described: set[CriterionKind]) -> Iterator[str]:
    has_tests = bool(described & {"tests", "command"})
    for setup in _SETUPS:
        for text in setup.criteria(owned):
            kind = _kind(text)
            has_tests |= kind == "tests"
            if kind not in described:
                yield text
    if not has_tests:
        yield from make.criteria(owned)


def _kind(text: str) -> CriterionKind | None:
    parsed = parse_criterion(text)
    return None if parsed is None else parsed.kind
