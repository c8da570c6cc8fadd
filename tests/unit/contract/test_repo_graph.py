"""The locks of the completion contract, with its own ten repositories."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shiftboss.errors import InvalidRequest, UnknownRepo
from shiftboss.rules.contract.repo_graph import Blocker, RepoGraph, find_cycles
from tests.document_repos import CAN_PARALLEL, CANNOT_PARALLEL, DEPENDS_ON

DEPENDENTS = {
    "acdc-core": ["alphavm", "deltavm", "adnet", "alphaos", "deltaos", "adl"],
    "alphavm": ["adnet", "alphaos"],
    "deltavm": ["adnet", "deltaos"],
    "adnet": ["ac-dc"],
    "alphaos": [],
    "deltaos": [],
    "ac-dc": [],
    "adl": ["adl-examples"],
    "adl-examples": [],
    "sdk": [],
}
GRAPH = RepoGraph(DEPENDS_ON)


def test_the_dependents_are_the_inverse_of_the_dependencies() -> None:
    assert {repo: GRAPH.dependents(repo) for repo in DEPENDS_ON} == DEPENDENTS
    assert {repo: GRAPH.dependencies(repo) for repo in DEPENDS_ON} == DEPENDS_ON


@pytest.mark.parametrize("chain", [False, True])
@pytest.mark.parametrize(("one", "other"), CAN_PARALLEL)
def test_can_parallel(one: str, other: str, chain: bool) -> None:
    assert GRAPH.can_parallel(one, other, chain=chain)
    assert GRAPH.can_parallel(other, one, chain=chain)


@pytest.mark.parametrize("chain", [False, True])
@pytest.mark.parametrize(("one", "other"), CANNOT_PARALLEL)
def test_cannot_parallel(one: str, other: str, chain: bool) -> None:
    assert not GRAPH.can_parallel(one, other, chain=chain)
    assert not GRAPH.can_parallel(other, one, chain=chain)


@pytest.mark.parametrize(
    ("repo", "blockers"),
    [
        ("deltavm", []),
        (
            "adnet",
            [
                Blocker(
                    "alphavm",
                    "is a dependency that is being worked on",
                    "no_downstream_while_upstream_active",
                )
            ],
        ),
        (
            "acdc-core",
            [
                Blocker(
                    "alphavm",
                    "is a dependent that is being worked on",
                    "no_upstream_while_downstream_active",
                )
            ],
        ),
        ("alphavm", [Blocker("alphavm", "is being worked on", "repo_is_active")]),
    ],
)
def test_spawn_blocking_example_with_alphavm_active(repo: str, blockers: list[Blocker]) -> None:
    assert GRAPH.blockers(repo, ["alphavm"], chain=False) == blockers
    assert GRAPH.can_spawn(repo, ["alphavm"]) is not bool(blockers)


def test_chain_locking_reaches_beyond_direct_neighbours() -> None:
    assert GRAPH.can_spawn("ac-dc", ["alphavm"])
    assert not GRAPH.can_spawn("ac-dc", ["alphavm"], chain=True)
    assert not GRAPH.can_spawn("alphavm", ["ac-dc"], chain=True)
    assert GRAPH.chain_of("alphavm") == {"acdc-core", "alphavm", "adnet", "alphaos", "ac-dc"}
    assert GRAPH.downstream_of("deltavm") == {"adnet", "deltaos", "ac-dc"}


def test_every_blocker_is_named_dependencies_first() -> None:
    blockers = GRAPH.blockers("adnet", ["ac-dc", "deltavm", "alphavm", "sdk"], chain=False)
    assert [str(blocker) for blocker in blockers] == [
        "alphavm is a dependency that is being worked on",
        "deltavm is a dependency that is being worked on",
        "ac-dc is a dependent that is being worked on",
    ]


def test_phases_are_ordered_bottom_up() -> None:
    assert GRAPH.phases() == [
        ["acdc-core", "sdk"],
        ["alphavm", "deltavm", "adl"],
        ["adnet", "alphaos", "deltaos", "adl-examples"],
        ["ac-dc"],
    ]


def test_unknown_repos_are_refused() -> None:
    with pytest.raises(UnknownRepo, match="'alphamv'"):
        GRAPH.can_spawn("alphamv", [])
    with pytest.raises(InvalidRequest, match="depends on unknown repos: nowhere"):
        RepoGraph({"a": ["nowhere"]})


def test_cycles_are_refused_and_named() -> None:
    with pytest.raises(InvalidRequest, match="b -> c -> b"):
        RepoGraph({"a": ["b"], "b": ["c"], "c": ["b"]})


def test_every_cycle_is_found() -> None:
    graph = {"a": ["b"], "b": ["a"], "c": ["c", "a"], "d": ["e"], "e": ["f"], "f": ["d"], "g": []}
    assert find_cycles(graph) == [["a", "b", "a"], ["c", "c"], ["d", "e", "f", "d"]]


def expected(repo: str, active: set[str]) -> bool:
    """The contract's logic, literally."""
    if repo in active:
        return False
    for dependency in DEPENDS_ON[repo]:
        if dependency in active:
            return False
    return all(dependent not in active for dependent in DEPENDENTS[repo])


@given(st.sampled_from(sorted(DEPENDS_ON)), st.sets(st.sampled_from(sorted(DEPENDS_ON))))
def test_can_spawn_follows_the_logic_of_the_contract(repo: str, active: set[str]) -> None:
    assert GRAPH.can_spawn(repo, active) is expected(repo, active)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=80))
def test_two_repos_of_a_phase_never_block_each_other(edges: list[tuple[int, int]]) -> None:
    depends_on: dict[str, list[str]] = {str(repo): [] for repo in range(31)}
    for one, other in edges:
        if one != other:
            depends_on[str(max(one, other))].append(str(min(one, other)))
    graph = RepoGraph(depends_on)
    for phase in graph.phases():
        for repo in phase:
            assert graph.can_spawn(repo, set(phase) - {repo}, chain=True)


@pytest.mark.parametrize("chain", [False, True])
def test_blockers_among_a_thousand_repos_are_found_in_under_a_millisecond(chain: bool) -> None:
    depends_on = {
        f"r{place}": [f"r{other}" for other in range(max(0, place - 30), place, 3)]
        for place in range(1000)
    }
    graph = RepoGraph(depends_on)
    active = [f"r{place}" for place in range(0, 1000, 20)]
    best = float("inf")
    for place in range(0, 1000, 50):
        began = time.process_time()
        graph.blockers(f"r{place + 5}", active, chain=chain)
        best = min(best, time.process_time() - began)
    assert best < 0.0005
