"""What changes between two policies, by what they mean: comments and spelling do not count."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

from pydantic_core import to_json

from shiftboss.protocol.policy import Policy

ChangeKind = Literal["added", "removed", "changed"]


class PolicyChange(NamedTuple):
    """One key of the policy, such as `repos.web.branch`. What is missing is None."""

    key: str
    kind: ChangeKind
    before: object
    after: object

    def __str__(self) -> str:
        if self.kind == "added":
            return f"+ {self.key}: {_text(self.after)}"
        if self.kind == "removed":
            return f"- {self.key}: {_text(self.before)}"
        return f"~ {self.key}: {_text(self.before)} -> {_text(self.after)}"


def policy_changes(before: Policy, after: Policy) -> list[PolicyChange]:
    """In the order of the keys of a policy. Values that are left out count as their defaults."""
    return list(_changes("", _values(before), _values(after)))


def _values(policy: Policy) -> dict[str, Any]:
    values = policy.model_dump(mode="json")
    # A repo that is added or removed is shown as somebody would write it.
    written = policy.model_dump(mode="json", include={"repos"}, exclude_defaults=True)
    values["repos"] = {
        name: _Repo(values["repos"][name], written["repos"].get(name, {})) for name in policy.repos
    }
    return values


class _Repo(dict[str, Any]):
    """All values of a repo, and those that are not the defaults."""

    def __init__(self, values: Mapping[str, Any], written: Mapping[str, Any]) -> None:
        super().__init__(values)
        self.written = written


def _changes(
    prefix: str, before: Mapping[str, Any], after: Mapping[str, Any]
) -> Iterator[PolicyChange]:
    for name in [*before, *(name for name in after if name not in before)]:
        key = f"{prefix}{name}"
        if name not in after:
            yield PolicyChange(key, "removed", _as_written(before[name]), None)
        elif name not in before:
            yield PolicyChange(key, "added", None, _as_written(after[name]))
        elif isinstance(before[name], dict) and isinstance(after[name], dict):
            yield from _changes(f"{key}.", before[name], after[name])
        elif before[name] != after[name]:
            yield PolicyChange(key, "changed", before[name], after[name])


def _as_written(value: object) -> object:
    return value.written if isinstance(value, _Repo) else value


def _text(value: object) -> str:
    return value if isinstance(value, str) and value else str(to_json(value), "utf-8")
