"""Which repositories may be worked on side by side.

The completion contract says it twice. Its principle locks the whole chain of dependencies up and
down; its algorithm looks at the direct neighbours alone. Both are here: `chain` chooses. In both,
siblings that share a dependency run side by side.
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
    """`repo` is the one that somebody works on; with `why` it makes a sentence."""

    repo: str
    why: str
    rule: LockRule

    def __str__(self) -> str:
        return f"{self.repo} {self.why}"


class RepoGraph:
    """Sets of repositories are the bits of a number, so that a decision costs next to nothing."""

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
        """The repo with all that it is built on and all that is built on it."""
        bits = self._up_all[self._known(repo)] | self._down_all[repo]
        return {repo} | {other for other, bit in self._bit.items() if bit & bits}

    def downstream_of(self, repo: str) -> set[str]:
        """All that is built on it, directly or not."""
        bits = self._down_all[self._known(repo)]
        return {other for other, bit in self._bit.items() if bit & bits}

    def blockers(self, repo: str, active: Collection[str], *, chain: bool) -> list[Blocker]:
        """Why nobody can start on `repo` while `active` are worked on; empty: somebody can."""
        up = (self._up_all if chain else self._up)[self._known(repo)]
        down = (self._down_all if chain else self._down)[repo]
        found: list[tuple[int, str, LockRule]] = []
        for other in set(active):
            bit = self._bit.get(other, 0)
            if other == repo:
                found.append((0, other, "repo_is_active"))
            elif bit & up:
                found.append((1, other, "no_downstream_while_upstream_active"))
            elif bit & down:
                found.append((2, other, "no_upstream_while_downstream_active"))
        return [Blocker(other, _WHY[rule], rule) for _, other, rule in sorted(found)]

    def can_spawn(self, repo: str, active: Collection[str], *, chain: bool = False) -> bool:
        return not self.blockers(repo, active, chain=chain)

    def can_parallel(self, one: str, other: str, *, chain: bool = False) -> bool:
        return self.can_spawn(one, [other], chain=chain)

    def phases(self) -> list[list[str]]:
        """Bottom-up: a repo comes one phase after the last of its dependencies."""
        return [list(phase) for phase in self._phases]

    def _known(self, repo: str) -> str:
        if repo not in self._bit:
            raise UnknownRepo(f"There is no repo {repo!r} in the policy", field="repo")
        return repo

    def _bits(self, repos: Sequence[str]) -> int:
        bits = 0
        for repo in repos:
            bits |= self._bit[repo]
        return bits

    def _reached(
        self, order: Sequence[str], next_of: Mapping[str, Sequence[str]]
    ) -> dict[str, int]:
        """All that can be reached from each; `order` has the reached ones first."""
        reached: dict[str, int] = {}
        for repo in order:
            bits = 0
            for other in next_of[repo]:
                bits |= self._bit[other] | reached[other]
            reached[repo] = bits
        return reached


def find_cycles(depends_on: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Circles as `[a, b, a]`, none sharing a name with another. Unknown names are passed over."""
    left = {name: [one for one in names if one in depends_on] for name, names in depends_on.items()}
    cycles: list[list[str]] = []
    while True:
        _drop_finished(left)
        if not left:
            return cycles
        # Whoever is left depends on somebody who is left, so the walk comes back to its own way.
        name, way = next(iter(left)), dict[str, None]()
        while name not in way:
            way[name] = None
            name = next(one for one in left[name] if one in left)
        walked = list(way)
        circle = walked[walked.index(name) :]
        cycles.append([*circle, name])
        for one in circle:
            del left[one]


def _drop_finished(left: dict[str, list[str]]) -> None:
    """Take away whoever depends on nobody that is left, again and again."""
    waits_for = {name: sum(one in left for one in set(names)) for name, names in left.items()}
    dependents = _inverse(
        {name: [one for one in names if one in left] for name, names in left.items()}
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
                f"{repo} depends on {', '.join(unknown)}, which is no repo", field="depends_on"
            )
    cycles = find_cycles(depends_on)
    if cycles:
        raise InvalidRequest(
            f"repos depend on each other in a circle: {' -> '.join(cycles[0])}",
            field="depends_on",
            facts={"cycles": cycles},
        )


# How a job of the local runner learns where the repos are that its own is built on.


PREFIX = "SHIFTBOSS_REPO_"


def variable_of(repo: str) -> str:
    """`adl-examples` is in SHIFTBOSS_REPO_ADL_EXAMPLES."""
    return PREFIX + re.sub(r"[^A-Z0-9]", "_", repo.upper())
