"""An upstream push breaks a downstream repo: from the red job to the task that fixes it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract_server import ContractServer, repo_on_main
from tests.forge import running_forge
from tests.repos import Repo

pytestmark = pytest.mark.requirement("CC-16")

WORKS = """
import os, pathlib, sys
upstream = pathlib.Path(os.environ["SHIFTBOSS_REPO_ALPHAVM"])
sys.exit(0 if "add" in (upstream / "api.txt").read_text() else "add is gone")
"""


class DependentRepos:
    def __init__(self, folder: Path) -> None:
        self.up = repo_on_main(folder / "alphavm", {"api.txt": "add sub\n"})
        self.down = repo_on_main(folder / "adnet", {"works.py": WORKS})
        folder.joinpath("state").mkdir()
        self.contract_server = ContractServer(
            folder / "state",
            {
                "alphavm": self._repo(self.up, "true"),
                "adnet": self._repo(self.down, "python3 works.py") | {"depends_on": ["alphavm"]},
            },
        )

    @staticmethod
    def _repo(repo: Repo, command: str) -> dict[str, object]:
        ci = {"jobs": {"test": {"run": [command]}}, "poll_every": "1s"}
        return {"path": str(repo.path), "ci": ci}

    def land(self, task: str, api: str) -> str:
        return self.contract_server.land(task, "alphavm", self.up, {"api.txt": api})

    def turn_red(self, task: str = "down-1") -> str:
        self.contract_server.begin(task, "adnet", "notes.txt")
        sha = self.down.commit(task, {"notes.txt": task})
        self.contract_server.push(task, "adnet", sha)
        return sha


@pytest.fixture
def repos(tmp_path: Path) -> Iterator[DependentRepos]:
    made = DependentRepos(tmp_path)
    yield made
    made.contract_server.close()


def test_the_breaking_commit_is_named_and_a_revert_task_is_opened(repos: DependentRepos) -> None:
    # Green once: earlier pushes are not suspects.
    repos.contract_server.land("down-0", "adnet", repos.down, {"notes.txt": "first\n"})
    repos.land("up-1", "add mul\n")
    breaking = repos.land("up-2", "mul\n")
    red = repos.turn_red()

    found = repos.contract_server.event("breakage_found")
    assert (found["bead_id"], found["worker"], found["sha"]) == ("down-1", "z.ai1", red)
    assert (found["repo"], found["jobs"]) == ("adnet", ["test"])
    assert (found["breaking"]["repo"], found["breaking"]["sha"]) == ("alphavm", breaking)
    assert found["breaking"]["bead_id"] == "up-2"
    assert found["remedy"] == "revert_upstream_commit"
    assert found["task"] == f"revert-{breaking[:12]}"
    opened = repos.contract_server.ask("show_task", bead_id=found["task"])
    assert (opened["status"], opened["title"]) == (
        "open",
        f"Revert {breaking[:12]} in alphavm: it broke adnet",
    )
    assert breaking in opened["description"]
    assert "add is gone" in opened["description"]

    # It is reported only once, even after a restart.
    repos.contract_server.server.stop()
    repos.contract_server.server.start()
    repos.contract_server.ask("add_task", bead_id="later", title="After the start")
    assert len(repos.contract_server.events("breakage_found")) == 1


def test_the_downstream_repo_is_fixed_when_other_work_is_on_top_of_the_breakage(
    repos: DependentRepos,
) -> None:
    breaking = repos.land("up-1", "sub\n")
    repos.land("up-2", "sub mul\n")
    repos.turn_red()
    found = repos.contract_server.event("breakage_found")
    assert (found["breaking"]["sha"], found["remedy"]) == (
        breaking,
        "spawn_fix_worker_for_downstream",
    )
    assert found["task"] == f"fix-adnet-{breaking[:12]}"


def test_a_search_interrupted_by_a_crash_is_completed_after_the_restart(
    repos: DependentRepos,
) -> None:
    breaking = repos.land("up-1", "sub\n")
    repos.turn_red()
    repos.contract_server.event("ci_failed")
    repos.contract_server.server.kill()
    repos.contract_server.server.start()
    assert repos.contract_server.event("breakage_found")["breaking"]["sha"] == breaking
    assert len(repos.contract_server.events("breakage_found")) == 1


def test_a_repo_that_broke_itself_blames_nobody(repos: DependentRepos) -> None:
    repos.land("up-1", "add mul\n")
    repos.contract_server.begin("down-1", "adnet", "works.py")
    sha = repos.down.commit("down-1", {"works.py": "import sys\nsys.exit(1)\n"})
    repos.contract_server.push("down-1", "adnet", sha)
    event = repos.contract_server.event("breakage_ruled_out")
    assert (event["outcome"], event["sha"], event["jobs"]) == ("own_change", sha, ["test"])
    assert repos.contract_server.events("breakage_found") == []


def test_with_a_forge_the_candidates_are_named_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORGE_TOKEN", "t0p-s3cret-token")
    up = repo_on_main(tmp_path / "alphavm", {"api.txt": "add\n"})
    down = repo_on_main(tmp_path / "adnet", {"notes.txt": "\n"})
    (tmp_path / "state").mkdir()
    with running_forge("github") as forge:
        ci = json.loads(forge.demand(poll_every=1).policy.model_dump_json(exclude_none=True))
        local = {"jobs": {"test": {"run": ["true"]}}, "poll_every": "1s"}
        contract_server = ContractServer(
            tmp_path / "state",
            {
                "alphavm": {"path": str(up.path), "ci": local},
                "adnet": {"path": str(down.path), "depends_on": ["alphavm"], "ci": ci},
            },
        )
        try:
            first = contract_server.land("up-1", "alphavm", up, {"api.txt": "sub\n"})
            second = contract_server.land("up-2", "alphavm", up, {"api.txt": "mul\n"})
            contract_server.begin("down-1", "adnet", "notes.txt")
            sha = down.commit("down-1", {"notes.txt": "more\n"})
            forge.push(sha, test="failure")
            contract_server.push("down-1", "adnet", sha)
            event = contract_server.event("breakage_suspected")
            assert [candidate["sha"] for candidate in event["candidates"]] == [second, first]
            assert "cannot be run here" in event["reason"]
            assert contract_server.events("breakage_found") == []
        finally:
            contract_server.close()
