"""Work on a branch of its own, with real git and a real local CI: the repo is free when it has
landed, and a merge when CI has passed it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.bus.bus import ask, task
from tests.acceptance.handoffs.contract_fixtures import Room, running_room
from tests.waiting import wait_until

OWN = "shiftboss/t-core"


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    with running_room(tmp_path) as room:
        yield room


def accepted(room: Room) -> str:
    """t-core is proven by the CI of its own branch; its commit."""
    room.core.git("checkout", "--quiet", "-b", OWN)
    commit = room.core.commit("with what the sync wants", {"synced": "yes\n"})
    room.core.git("checkout", "--quiet", "main")
    words = ("--title", "T", "--files", "synced", "--criterion", "it is well", "--submit")
    own = ("--branch", OWN, "--target", "main", "--base", "main")
    room.ok("handoff", "spawn", "t-core", "--repo", "core", *words, *own)
    room.begin("t-core")
    room.ok("milestone", "t-core", f"PUSHED_TO_CI: core commit {commit[:12]} - CI run #1")
    room.wait_for("t-core", status="done")
    return commit


def landed(room: Room, commit: str, landed_commit: str) -> dict[str, Any]:
    words = {"commit": commit, "target": "main", "landed_commit": landed_commit}
    return ask(room.client, "report_landed", bead_id="t-core", **words)


def core(room: Room) -> tuple[str | None, str | None, str | None]:
    """Who has it, what CI says of it, and where."""
    one = room.json("repo", "list")["repos"][0]
    return one["locked_by"], one["ci"], one["sha"]


@pytest.mark.requirement("CC-01", "CC-05", "OWN-01")
def test_the_repo_is_free_when_the_proven_commit_is_on_its_branch(room: Room) -> None:
    commit = accepted(room)
    assert core(room) == ("t-core", None, None)
    assert room.run("repo", "can-spawn", "app").code == 1
    early = room.client.post(
        "/bus/report_landed",
        {"bead_id": "t-core", "commit": commit, "target": "main", "landed_commit": commit},
    )
    assert (early.status_code, early.json()["field"]) == (409, "commit")
    (one,) = ask(room.client, "list_landable")["tasks"]
    assert (one["bead_id"], one["commit"], one["target"]) == ("t-core", commit, "main")
    room.core.git("merge", "--quiet", "--ff-only", OWN)
    assert "repo_locked" not in landed(room, commit, commit)
    assert core(room) == (None, "green", commit)
    assert task(room.client, "t-core")["landed_commit"] == commit
    assert ask(room.client, "list_landable")["tasks"] == []
    assert room.ok("repo", "can-spawn", "app") == ["work on app may start"]
    events = room.run("events", "default").out
    assert "t-core landed on main" in events
    assert "t-core released core: the work has landed" in events


@pytest.mark.requirement("CC-01", "CC-05")
def test_of_a_merge_ci_is_asked_before_the_repo_is_free(room: Room) -> None:
    commit = accepted(room)
    room.core.commit("of a person", {"README.md": "# Others\n"})
    room.core.git("merge", "--quiet", "--no-ff", "--message", "Land", OWN)
    merge = room.core.head()
    told = landed(room, commit, merge)
    assert told["landed_commit"] == merge
    # The server goes on looking by itself; here it is asked to.
    wait_until(
        lambda: "repo_locked" not in landed(room, commit, merge), "CI has passed", seconds=30
    )
    assert core(room) == (None, "green", merge)
