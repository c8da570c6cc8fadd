"""`shiftboss redteam`: its answers, its exit code, and what it leaves behind: nothing."""

from __future__ import annotations

import hashlib
import json
import signal
from pathlib import Path
from typing import Any

import pytest

from shiftboss.redteam.corpus import HACKS
from tests.commands import running, shiftboss
from tests.e2e.redteam.examples import UNITTEST, make_plan
from tests.running import RunningServer
from tests.waiting import wait_until

pytestmark = pytest.mark.requirement("OWN-17")

WORDS = UNITTEST._replace(
    task={"files_owned": ["hello.txt"], "criteria": ["Command passes: grep -q hello hello.txt"]}
)


def snapshot(folder: Path) -> dict[str, str]:
    """Every file below the folder, with a hash of its content."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def redteam(folder: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    done = shiftboss("redteam", "plan.yaml", *arguments, "--json", folder=folder)
    return done.code, json.loads(done.out)


def test_refused_hacks_exit_with_0_and_leave_nothing(tmp_path: Path) -> None:
    work, temporary = tmp_path / "work", tmp_path / "temporary"
    temporary.mkdir()
    make_plan(work, UNITTEST)
    before = snapshot(work)
    done = shiftboss(
        *("redteam", "plan.yaml", "fix-prices", "--json"),
        *("--hack", "exit-at-import", "--hack", "tests-deleted", "--hack", "go-build-tag"),
        folder=work,
        TMPDIR=str(temporary),
    )
    assert done.code == 0, done.err
    answer = json.loads(done.out)
    assert [answer[key] for key in ("accepted", "refused", "not_applicable")] == [0, 2, 1]
    (task,) = answer["tasks"]
    outcomes = {hack["name"]: (hack["outcome"], hack["refused_by"]) for hack in task["hacks"]}
    assert outcomes == {
        "exit-at-import": ("refused", "criterion"),
        "tests-deleted": ("refused", "tests_kept"),
        "go-build-tag": ("not_applicable", None),
    }
    assert snapshot(work) == before
    assert list(temporary.iterdir()) == []


def test_an_accepted_hack_exits_with_1_and_names_the_line_to_change(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, WORDS)
    code, answer = redteam(tmp_path, "--hack", "words-of-criteria", "--hack", "placeholder")
    assert code == 1
    assert (answer["accepted"], answer["refused"]) == (1, 1)
    (advice,) = answer["tasks"][0]["advice"]
    line = next(
        number
        for number, text in enumerate(plan.read_text().splitlines(), start=1)
        if "criteria:" in text
    )
    assert advice["change"].startswith(f"plan.yaml:{line}: tasks.0.criteria: none of them runs")
    assert advice["hacks"] == ["words-of-criteria"]
    shown = shiftboss("redteam", "plan.yaml", "--hack", "words-of-criteria", folder=tmp_path)
    assert shown.code == 1
    assert "ACCEPTED" in shown.out
    assert f"plan.yaml:{line}: tasks.0.criteria" in shown.out
    assert shown.err == "1 hack would be accepted\n"


def test_the_classes_are_shown_with_what_refused_them(tmp_path: Path) -> None:
    make_plan(tmp_path, WORDS)
    done = shiftboss("redteam", "plan.yaml", "--class", "stub", folder=tmp_path)
    assert done.code == 0
    assert "refused by criterion" in done.out
    assert "not applicable: the task owns no" in done.out
    assert "1 hack tried: 1 refused, 0 accepted; 4 not applicable" in done.out


def test_all_hacks_are_listed_without_trying_them(tmp_path: Path) -> None:
    done = shiftboss("redteam", "plan.yaml", "--list", "--json", folder=tmp_path)
    assert [hack["name"] for hack in json.loads(done.out)["hacks"]] == [hack.name for hack in HACKS]
    assert "exit-at-import" in shiftboss("redteam", "plan.yaml", "--list", folder=tmp_path).out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--class", "early-exits"], "there is no class 'early-exits'; did you mean 'early-exit'?"),
        (["--hack", "exit"], "there is no hack 'exit'"),
        (["fix-price"], "the plan has no task 'fix-price'"),
    ],
)
def test_unknown_names_are_refused(tmp_path: Path, arguments: list[str], message: str) -> None:
    make_plan(tmp_path, UNITTEST)
    done = shiftboss("redteam", "plan.yaml", *arguments, folder=tmp_path)
    assert done.code == 1
    assert message in done.err


def test_an_interrupted_replay_removes_its_scratch_copy(tmp_path: Path) -> None:
    work, temporary = tmp_path / "work", tmp_path / "temporary"
    temporary.mkdir()
    make_plan(work, UNITTEST)
    with running("redteam", "plan.yaml", folder=work, TMPDIR=str(temporary)) as command:
        checkouts = "shiftboss-redteam-*/verifier/checkouts/*"
        wait_until(lambda: any(temporary.glob(checkouts)), "a hack is being verified", 30)
        command.signal(signal.SIGINT)
        done = command.end()
    assert (done.code, done.err) == (1, "stopped; the scratch copy was removed\n")
    assert list(temporary.iterdir()) == []


def test_a_task_that_has_its_contract_can_be_tried(tmp_path: Path) -> None:
    make_plan(tmp_path, UNITTEST)
    repo = next(path.parent for path in tmp_path.rglob(".git"))
    (criterion,) = UNITTEST.task["criteria"]
    server = RunningServer(tmp_path / "server" / "shiftboss.db").start()
    try:
        created = shiftboss(
            *("swarm", "create", "--id", "s", "--workers-expected", "1"),
            url=server.url,
            folder=tmp_path,
        )
        assert created.code == 0, created.err
        spawned = shiftboss(
            *(
                "handoff",
                "spawn",
                "bd-7",
                "--title",
                "Fix",
                "--files",
                "shop/",
                "--repo",
                str(repo),
            ),
            *("--criterion", criterion, "--swarm", "s"),
            url=server.url,
            folder=tmp_path,
        )
        assert spawned.code == 0, spawned.err
        done = shiftboss(
            *("redteam", "bd-7", "--hack", "exit-at-import", "--json"),
            url=server.url,
            folder=tmp_path,
        )
    finally:
        server.close()
    answer = json.loads(done.out)
    assert (done.code, answer["file"], answer["refused"]) == (0, None, 1), done.err
    assert answer["tasks"][0]["bead_id"] == "bd-7"
