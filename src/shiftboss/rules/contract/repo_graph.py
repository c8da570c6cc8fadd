"""Which repositories may be worked on at the same time.

The completion contract has two versions of the rule. Its principle locks the whole chain of
dependencies, upstream and downstream; its algorithm locks only direct neighbours. `chain` chooses
between them. In both, siblings that share a dependency can be worked on at the same time.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from shiftboss.errors import InvalidRequest, UnknownRepo

LockRule = Literal[
    "repo_is_active",
    "no_downstream_while_upstream_active",
    "no_upstream_while_downstream_active",
]

_WHY: Final[dict[LockRule, str]] = {
    "repo_is_active": "is being worked on",
    "no_downstream_while_upstream_active": "is a dependency that is being worked on",
    "no_upstream_while_downstream_active": "is a dependent that is being worked on",
}


class Blocker(NamedTuple):
    """`repo` is the repo that is being worked on. `why` reads well after it."""

    repo: str
    why: str
    rule: LockRule

    def __str__(self) -> str:
        return f"{self.repo} {self.why}"


class RepoGraph:
    """Sets of repositories are bit masks, so that a decision is cheap."""

    def __init__(self, depends_on: Mapping[str, Sequence[str]]) -> None:
        _check(depends_on)
        self._depends_on = {repo: tuple(names) for repo, names in depends_on.items()}
        self._bit = {repo: 1 << place for place, repo in enumerate(depends_on)}
        self._dependents = _inverse(self._depends_on)
        self._up = {repo: self._bits(names) for repo, names in self._depends_on.items()}
        self._down = {repo: self._bits(names) for repo, names in self._dependents.items()}
        self._phases = _phases(self._depends_on)
        bottom_up = [repo for phase in self._phases for repo in phase]
        self._up_all = self._reached(bottom_up, self._depends_on)
        self._down_all = self._reached(bottom_up[::-1], self._dependents)

    def dependencies(self, repo: str) -> list[str]:
        return list(self._depends_on[self._known(repo)])

    def dependents(self, repo: str) -> list[str]:
        return list(self._dependents[self._known(repo)])

    def chain_of(self, repo: str) -> set[str]:
        """The repo with all its direct and indirect dependencies and dependents."""
        bits = self._up_all[self._known(repo)] | self._down_all[repo]
        return {repo} | {other for other, bit in self._bit.items() if bit & bits}

    def downstream_of(self, repo: str) -> set[str]:
        """All direct and indirect dependents."""
        bits = self._down_all[self._known(repo)]
        return {other for other, bit in self._bit.items() if bit & bits}

    def blockers(self, repo: str, active: Collection[str], *, chain: bool) -> list[Blocker]:
        """Why work on `repo` cannot start while `active` repos are worked on. Empty if it can."""
        up = (self._up_all if chain else self._up)[self._known(repo)]
        down = (self._down_all if chain else self._down)[repo]
        blocking: list[tuple[int, str, LockRule]] = []
        for other in set(active):
            bit = self._bit.get(other, 0)
            if other == repo:
                blocking.append((0, other, "repo_is_active"))
            elif bit & up:
                blocking.append((1, other, "no_downstream_while_upstream_active"))
            elif bit & down:
                blocking.append((2, other, "no_upstream_while_downstream_active"))
        return [Blocker(other, _WHY[rule], rule) for _, other, rule in sorted(blocking)]

    def can_spawn(self, repo: str, active: Collection[str], *, chain: bool = False) -> bool:
        return not self.blockers(repo, active, chain=chain)

    def can_parallel(self, one: str, other: str, *, chain: bool = False) -> bool:
        return self.can_spawn(one, [other], chain=chain)

    def phases(self) -> list[list[str]]:
        """Bottom-up: a repo comes one phase after the last of its dependencies."""
        return [list(phase) for phase in self._phases]

    def _known(self, repo: str) -> str:
        if repo not in self._bit:
            raise UnknownRepo(f"The policy has no repo {repo!r}", field="repo")
        return repo

    def _bits(self, repos: Sequence[str]) -> int:
        bits = 0
        for repo in repos:
            bits |= self._bit[repo]
        return bits

    def _reached(
        self, order: Sequence[str], next_of: Mapping[str, Sequence[str]]
    ) -> dict[str, int]:
        """The repos that can be reached from each. `order` must have the reached ones first."""
        reached: dict[str, int] = {}
        for repo in order:
            bits = 0
            for other in next_of[repo]:
                bits |= self._bit[other] | reached[other]
            reached[repo] = bits
        return reached


def find_cycles(depends_on: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Cycles such as `[a, b, a]`. No two share a name. Unknown names are ignored."""
    left = {
        name: [other for other in names if other in depends_on]
        for name, names in depends_on.items()
    }
    cycles: list[list[str]] = []
    while True:
        _drop_finished(left)
        if not left:
            return cycles
        # Every name left depends on another one that is left, so the walk must repeat a name.
        name, visited = next(iter(left)), dict[str, None]()
        while name not in visited:
            visited[name] = None
            name = next(other for other in left[name] if other in left)
        walk = list(visited)
        cycle = walk[walk.index(name) :]
        cycles.append([*cycle, name])
        for member in cycle:
            del left[member]


def _drop_finished(left: dict[str, list[str]]) -> None:
    """Remove names without dependencies on the remaining ones, until there are no more."""
    waits_for = {name: sum(other in left for other in set(names)) for name, names in left.items()}
    dependents = _inverse(
        {name: [other for other in names if other in left] for name, names in left.items()}
    )
    free = [name for name, count in waits_for.items() if count == 0]
    while free:
        name = free.pop()
        del left[name]
        for other in dependents[name]:
            waits_for[other] -= 1
            if waits_for[other] == 0:
                free.append(other)


def _inverse(depends_on: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    dependents: dict[str, list[str]] = {repo: [] for repo in depends_on}
    for repo, names in depends_on.items():
        for name in dict.fromkeys(names):
            dependents[name].append(repo)
    return dependents


def _phases(depends_on: Mapping[str, Sequence[str]]) -> list[list[str]]:
    phases: list[list[str]] = []
    placed: set[str] = set()
    left = list(depends_on)
    while left:
        phase = [repo for repo in left if placed.issuperset(depends_on[repo])]
        phases.append(phase)
        placed.update(phase)
        left = [repo for repo in left if repo not in placed]
    return phases


def _check(depends_on: Mapping[str, Sequence[str]]) -> None:
    for repo, names in depends_on.items():
        unknown = [name for name in names if name not in depends_on]
        if unknown:
            raise InvalidRequest(
                f"{repo} depends on unknown repos: {', '.join(unknown)}", field="depends_on"
            )
    cycles = find_cycles(depends_on)
    if cycles:
        raise InvalidRequest(
            f"repos depend on each other in a cycle: {' -> '.join(cycles[0])}",
            field="depends_on",
            facts={"cycles": cycles},
        )


# Prefix of the variables that tell a local job where its dependencies are checked out.
PREFIX = "SHIFTBOSS_REPO_"


def variable_of(repo: str) -> str:
    """`SHIFTBOSS_REPO_ADL_EXAMPLES` for the repo `adl-examples`."""
    return PREFIX + re.sub(r"[^A-Z0-9]", "_", repo.upper())
