"""Work on its own branch, with real git and a real local CI: the repo is released when the work
has landed, and after a merge when CI passed it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.bus.bus import ask, task
from tests.acceptance.handoffs.contract_fixtures import PolicyServer, running_policy_server
from tests.waiting import wait_until

OWN = "shiftboss/t-core"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PolicyServer]:
    with running_policy_server(tmp_path) as server:
        yield server


def accepted(server: PolicyServer) -> str:
    """t-core is proven by the CI of its own branch; its commit."""
    server.core.git("checkout", "--quiet", "-b", OWN)
    commit = server.core.commit("with what the sync wants", {"synced": "yes\n"})
    server.core.git("checkout", "--quiet", "main")
    options = ("--title", "T", "--files", "synced", "--criterion", "it is well", "--submit")
    own = ("--branch", OWN, "--target", "main", "--base", "main")
    server.ok("handoff", "spawn", "t-core", "--repo", "core", *options, *own)
    server.begin("t-core")
    server.ok("milestone", "t-core", f"PUSHED_TO_CI: core commit {commit[:12]} - CI run #1")
    server.wait_for("t-core", status="done")
    return commit


def landed(server: PolicyServer, commit: str, landed_commit: str) -> dict[str, Any]:
    members = {"commit": commit, "target": "main", "landed_commit": landed_commit}
    return ask(server.client, "report_landed", bead_id="t-core", **members)


def core(server: PolicyServer) -> tuple[str | None, str | None, str | None]:
    """The lock holder of core, its CI state, and the commit it is about."""
    one = server.json("repo", "list")["repos"][0]
    return one["locked_by"], one["ci"], one["sha"]


@pytest.mark.requirement("CC-01", "CC-05", "OWN-01")
def test_the_repo_is_unlocked_when_the_proven_commit_is_on_its_branch(
    server: PolicyServer,
) -> None:
    commit = accepted(server)
    assert core(server) == ("t-core", None, None)
    assert server.run("repo", "can-spawn", "app").code == 1
    early = server.client.post(
        "/bus/report_landed",
        {"bead_id": "t-core", "commit": commit, "target": "main", "landed_commit": commit},
    )
    assert (early.status_code, early.json()["field"]) == (409, "commit")
    (one,) = ask(server.client, "list_landable")["tasks"]
    assert (one["bead_id"], one["commit"], one["target"]) == ("t-core", commit, "main")
    server.core.git("merge", "--quiet", "--ff-only", OWN)
    assert "repo_locked" not in landed(server, commit, commit)
    assert core(server) == (None, "green", commit)
    assert task(server.client, "t-core")["landed_commit"] == commit
    assert ask(server.client, "list_landable")["tasks"] == []
    assert server.ok("repo", "can-spawn", "app") == ["work on app may start"]
    events = server.run("events", "default").out
    assert "t-core landed on main" in events
    assert "t-core released core: the work has landed" in events


@pytest.mark.requirement("CC-01", "CC-05")
def test_a_merge_needs_green_ci_before_the_repo_is_unlocked(server: PolicyServer) -> None:
    commit = accepted(server)
    server.core.commit("of a person", {"README.md": "# Others\n"})
    server.core.git("merge", "--quiet", "--no-ff", "--message", "Land", OWN)
    merge = server.core.head()
    answer = landed(server, commit, merge)
    assert answer["landed_commit"] == merge
    # The server would check again by itself; here it is asked to.
    wait_until(
        lambda: "repo_locked" not in landed(server, commit, merge),
        "CI has passed",
        seconds=30,
    )
    assert core(server) == (None, "green", merge)
