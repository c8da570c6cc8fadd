"""The context of a new worker: which files it gets, and how they fit into its token budget.

The order is that of the contract: objective and plan, code, tests, specs, then history.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from shiftboss.errors import InvalidRequest
from shiftboss.protocol.contract.contract_requests import ContextDocument, ContextParts
from shiftboss.rules.claims.kept_tests import is_test_file
from shiftboss.rules.paths.patterns import Scope
from shiftboss.rules.prompts.token_estimate import CountTokens, estimate_tokens

REQUIRED: Final = ("objective", "component_id", "repo", "branch_strategy", "plan_ref")
RECOMMENDED: Final = (
    "output_format",
    "task_boundaries",
    "component_specs",
    "recent_changes",
    "known_issues",
    "parallel_workers",
)
RECENT_CHANGES_MAX: Final = 3
# The order of the documents, after the objective and the plan.
PRIORITY: Final = ("code_files", "test_files", "spec_files", "history")


class ContextHandoff(NamedTuple):
    """`left_out` are the documents that did not fit. `missing` are the recommended parts that were
    not given."""

    text: str
    tokens: int
    included: list[str]
    left_out: list[str]
    missing: list[str]


def context_handoff(
    parts: ContextParts, budget: int, count_tokens: CountTokens = estimate_tokens
) -> ContextHandoff:
    """Include each document whole or not at all, because half a file misleads. A document that is
    too large is left out, and later ones can still fit.

    Raises InvalidRequest when a required part is missing, or the objective alone is too large.
    """
    _check_required(parts)
    sections = [_head(parts)]
    room = budget - count_tokens(sections[0])
    if room < 0:
        raise InvalidRequest(
            f"objective and plan have {budget - room} tokens, but the budget is {budget}",
            field="objective",
            hint="shorten the objective, or name a shorter plan",
        )
    included, left_out = [], []
    for document in _in_order(parts):
        section = _section(document)
        tokens = count_tokens(section)
        if tokens > room:
            left_out.append(document.path)
            continue
        room -= tokens
        sections.append(section)
        included.append(document.path)
    # The tokens of joined texts are not exactly the sum.
    while included and count_tokens("".join(sections)) > budget:
        sections.pop()
        left_out.append(included.pop())
    text = "".join(sections)
    missing = [name for name in RECOMMENDED if not getattr(parts, name)]
    return ContextHandoff(text, count_tokens(text), included, left_out, missing)


def _check_required(parts: ContextParts) -> None:
    missing = [name for name in REQUIRED if not getattr(parts, name).strip()]
    if missing:
        raise InvalidRequest(
            f"the context needs {', '.join(missing)}",
            field=missing[0],
            facts={"missing": missing},
        )


def _head(parts: ContextParts) -> str:
    lines = [f"{_title(name)}: {getattr(parts, name)}" for name in REQUIRED]
    lines += [f"{_title(name)}: {text}" for name, text in _recommended(parts) if text]
    if parts.plan:
        lines += ["", parts.plan]
    return "\n".join(lines) + "\n"


def _recommended(parts: ContextParts) -> Iterator[tuple[str, str]]:
    for name in RECOMMENDED:
        value = getattr(parts, name)
        if name == "recent_changes":
            value = value[:RECENT_CHANGES_MAX]
        yield name, value if isinstance(value, str) else "; ".join(value)


def _title(name: str) -> str:
    return name.upper().replace("_", " ")


def _in_order(parts: ContextParts) -> Iterator[ContextDocument]:
    for name in PRIORITY:
        yield from getattr(parts, name)


def _section(document: ContextDocument) -> str:
    return f"\n=== {document.path}\n{document.text}\n"


FILES_MAX: Final = 1000

_TEST_WORDS: Final = re.compile(r"^(test|tests)[_-]|[_.-](test|tests|spec)$")
_SPEC_FOLDERS: Final = frozenset({"spec", "specs", "specification", "specifications"})
_PROSE: Final = (".md", ".txt", ".rst", ".yaml", ".yml", ".adoc")


class ChainRepo(NamedTuple):
    name: str
    path: str
    branch: str


class ContextRequest(NamedTuple):
    """`owned` are the patterns of the contract. `chain` is the repo with all its dependencies."""

    repo: str
    base: str
    owned: Sequence[str]
    plan_ref: str | None
    chain: Sequence[ChainRepo]


class ContextMaterial(NamedTuple):
    """What was read from the repository. `unread` are files that are binary or too large."""

    plan: str | None
    code_files: list[ContextDocument]
    test_files: list[ContextDocument]
    spec_files: list[ContextDocument]
    history: list[ContextDocument]
    recent_changes: list[str]
    unread: list[str]


class ChosenFiles(NamedTuple):
    code: list[str]
    tests: list[str]
    specs: list[str]


def choose_files(names: Sequence[str], owned: Sequence[str]) -> ChosenFiles:
    """The owned code, the tests for it, and the specs, with the closest specs first."""
    scope = Scope(owned)
    owned_files = [name for name in names if scope.covers(name)]
    code = [name for name in owned_files if not _is_test(name)]
    # A pattern may name a file that does not exist yet, but whose tests do.
    stems = {_stem(name) for name in (*owned_files, *owned)}
    tests = [
        name for name in names if _is_test(name) and (scope.covers(name) or _stem(name) in stems)
    ]
    specs = sorted(
        filter(_is_spec, names), key=lambda name: (_stem(name) not in stems, name.count("/"), name)
    )
    return ChosenFiles(
        code[:FILES_MAX], tests[:FILES_MAX], _without(specs, owned_files)[:FILES_MAX]
    )


def _without(names: Iterable[str], others: Iterable[str]) -> list[str]:
    left_out = set(others)
    return [name for name in names if name not in left_out]


def _is_test(name: str) -> bool:
    return is_test_file(name)


def _is_spec(name: str) -> bool:
    folders = {folder.casefold() for folder in name.split("/")[:-1]}
    return name.endswith(".cspec") or (name.endswith(_PROSE) and bool(folders & _SPEC_FOLDERS))


def _stem(name: str) -> str:
    stem = posixpath.splitext(posixpath.basename(name.rstrip("/")))[0].casefold()
    return _TEST_WORDS.sub("", stem)
