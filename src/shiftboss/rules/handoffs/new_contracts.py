"""The contract that a task gets: what was asked for, completed by what the repository shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, Protocol, TypeVar

from shiftboss.errors import InvalidRequest
from shiftboss.protocol.handoffs import PATHS_MAX, Contract, VerificationPolicy
from shiftboss.rules.paths.braces import normalize_patterns
from shiftboss.rules.paths.patterns import count_wildcards

T = TypeVar("T")
# Of all patterns of a list, after braces are expanded.
PATHS_WILDCARDS_MAX: Final = 2 * PATHS_MAX


class GeneratedParts(Protocol):
    """What a survey of the repository proposes for a contract that does not say it."""

    @property
    def files_readonly(self) -> list[str]: ...

    @property
    def success_criteria(self) -> list[str]: ...


def new_contract(
    task_id: str,
    *,
    files: Sequence[str],
    files_readonly: Sequence[str] | None,
    criteria: Sequence[str],
    dependencies: Sequence[str],
    generated: GeneratedParts,
) -> Contract:
    """Raises InvalidRequest for a pattern that is unusable. An empty list of read-only files is a
    choice, an empty list of criteria is none."""
    return Contract(
        task_id=task_id,
        files_owned=normalised_paths(files, "files"),
        files_readonly=generated.files_readonly
        if files_readonly is None
        else normalised_paths(files_readonly, "files_readonly"),
        dependencies_completed=list(dependencies),
        success_criteria=list(criteria) or generated.success_criteria,
    )


def normalised_paths(paths: Sequence[str], field: str) -> list[str]:
    """The patterns in their normal form, with braces expanded."""
    expanded: dict[str, None] = {}
    for patterns in parse_each(paths, field, normalize_patterns):
        expanded.update(dict.fromkeys(patterns))
        if len(expanded) > PATHS_MAX:
            raise InvalidRequest(
                f"{field}: stands for more than {PATHS_MAX} patterns",
                field=field,
                hint="name folders instead of files",
            )
    wildcards = sum(map(count_wildcards, expanded))
    if wildcards > PATHS_WILDCARDS_MAX:
        raise InvalidRequest(
            f"{field}: has {wildcards} wildcards; at most {PATHS_WILDCARDS_MAX} are allowed",
            field=field,
            hint="name folders instead of globs; braces multiply the wildcards",
        )
    return list(expanded)


def normalised_policy(policy: VerificationPolicy) -> VerificationPolicy:
    """Raises InvalidRequest for a pattern that is unusable."""
    lists = ("generated", "expectations_change")
    return policy.model_copy(
        update={name: normalised_paths(getattr(policy, name), f"policy.{name}") for name in lists}
    )


def parse_each(texts: Sequence[str], field: str, parse: Callable[[str], T]) -> Iterator[T]:
    """Raises InvalidRequest, with the index in the list, where `parse` raises ValueError."""
    for number, text in enumerate(texts):
        try:
            yield parse(text)
        except ValueError as error:
            raise InvalidRequest(f"{field}.{number}: {error}", field=f"{field}.{number}") from None
