"""Whether a contract lets a path be changed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from shiftboss.rules.protected import protected
from shiftboss.rules.scope import Scope, as_written


class Refusal(NamedTuple):
    """Why not, to be read after the path; and what to do about it."""

    reason: str
    hint: str


class Ownership:
    """`files_readonly` wins over `files_owned`. What the policy lets be `generated` comes beside
    it. Made of lists: a hook has no more than those, and no time to load the types of a handoff."""

    def __init__(
        self, owned: Iterable[str], readonly: Iterable[str], generated: Iterable[str]
    ) -> None:
        self._owned = Scope(owned)
        self._readonly = Scope(readonly)
        self._generated = Scope(generated)

    def refusal(self, path: str, *, is_submodule: bool = False) -> Refusal | None:
        """None: the path may be changed."""
        try:
            as_written(path)
        except ValueError as error:
            return Refusal(f"{error}; no contract covers it", "take it out of the branch")
        if self._generated.names_exactly(path):
            return None
        if self._readonly.covers(path):
            return Refusal(
                "is in files_readonly",
                "change it back, or ask for the change with request_scope and say why",
            )
        if self._owned.names_exactly(path):
            return None
        if is_submodule:
            return _by_name("is a submodule")
        if protected(path):
            return _by_name("steers tests or tools")
        if self._owned.covers(path) or self._generated.covers(path):
            return None
        return Refusal("is not in files_owned", "change it back, or ask for it with request_scope")

    def is_readonly(self, path: str) -> bool:
        return self._readonly.covers(path)


def _by_name(what: str) -> Refusal:
    return Refusal(
        f"{what}, so files_owned must name it exactly, not by a folder or a glob",
        "change it back, or ask for exactly this path with request_scope",
    )
