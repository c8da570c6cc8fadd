"""Held-out tests in plans: their keys, the files they come from, and what agents could see."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import yaml

from shiftboss.client.server_address import Server
from shiftboss.errors import Forbidden, InvalidPlan
from shiftboss.orchestrator.run.held_out_files import read_held_out
from shiftboss.orchestrator.run.plan_file import load_plan, read_plan_file
from shiftboss.orchestrator.run.preflight import Preflight, preflight
from shiftboss.orchestrator.run.server_client import RunServerClient
from shiftboss.protocol.plan import PlanTask
from shiftboss.rules.claims.held_out import HELD_OUT_BYTES_MAX
from shiftboss.rules.plans.held_out import files_named_by
from tests.repos import Repo

pytestmark = pytest.mark.requirement("OWN-14")

HIDDEN = "tests/test_hidden.py"
CRITERION = f"Tests pass: python3 -m unittest {HIDDEN}"


class Project:
    """A plan beside its repository, with one held-out file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.repo = Repo(folder / "shop")
        self.source = folder / "held-out" / "test_hidden.py"
        self.source.parent.mkdir()
        self.source.write_text("def test_hidden(): ...\n")

    def write(
        self,
        held_out: object = None,
        file: str = "plan.yaml",
        repo: str = "shop",
        copy: list[str] | None = None,
        **task: Any,
    ) -> Path:
        members = {"id": "a", "title": "A", "files_owned": ["a.py"], **task}
        if held_out is not None:
            members["held_out"] = held_out
        plan = {
            "goal": "G",
            "repos": {"shop": {"path": repo, "branch": "main", "copy": copy or []}},
            "tasks": [members],
        }
        path = self.folder / file
        path.write_text(yaml.safe_dump(plan, sort_keys=False))
        return path

    def holding(self, source: str = "held-out/test_hidden.py", **members: Any) -> Path:
        return self.write({"files": {HIDDEN: source}, "criterion": CRITERION}, **members)

    def check(self, path: Path) -> Preflight:
        """As `plan check --no-agents` does."""
        loaded = read_plan_file(path)
        state = self.folder / ".shiftboss"
        return asyncio.run(preflight(loaded, loaded.plan, state, agents=False, tests=True))


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def problems(path: Path) -> list[str]:
    with pytest.raises(InvalidPlan) as caught:
        load_plan(path)
    found = caught.value.facts["problems"]
    assert isinstance(found, list)
    return [line.removeprefix(f"{path}:") for line in found]


def test_the_files_are_read_relative_to_the_plan(project: Project) -> None:
    path = project.holding()
    (tests,) = read_held_out(load_plan(path)).values()
    assert tests.files == {HIDDEN: project.source.read_text()}
    assert tests.criterion == CRITERION
    assert project.check(path) == ([], [])


def test_a_file_that_cannot_be_used_is_a_problem_with_its_line_and_key(project: Project) -> None:
    key = f"14: tasks.0.held_out.files.{HIDDEN}: "
    path = project.holding("gone.py")
    assert problems(path) == [f"{key}there is no file {project.folder}/gone.py"]
    project.source.write_bytes(b"\xff")
    assert problems(project.holding()) == [f"{key}{project.source} is not UTF-8 text"]
    project.source.write_bytes(b"x" * (HELD_OUT_BYTES_MAX + 1))
    assert problems(project.holding()) == [f"{key}{project.source} is larger than 160 KiB"]
    assert problems(project.holding("held-out")) == [
        f"{key}{project.folder}/held-out cannot be read: Is a directory"
    ]
    half = project.folder / "half.py"
    half.write_text("ä" * (HELD_OUT_BYTES_MAX // 10))  # six bytes each in ASCII
    both = project.write({"files": {"a.py": "half.py", "b.py": "half.py"}, "criterion": CRITERION})
    (line,) = problems(both)
    assert line.endswith("held_out.files: the files of a task must have at most 160 KiB together")


def test_a_check_without_repositories_does_not_need_the_files(project: Project) -> None:
    path = project.holding("gone.py")
    loaded = read_plan_file(path)
    found = asyncio.run(preflight(loaded, loaded.plan, project.folder, agents=False, repos=False))
    assert found == ([], [])
    assert len(project.check(path).problems) == 1


def test_paths_and_criteria_that_cannot_work_are_problems(project: Project) -> None:
    files = {"../a.py": "x", ".git/config": "x", "tests/": "x"}
    lines = problems(project.write({"files": files, "criterion": "Command passes: true"}))
    assert [line.partition("tasks.0.held_out.")[2] for line in lines] == [
        "files.../a.py: '../a.py' contains ..; write the path without it",
        "files..git/config: '.git/config' is inside .git",
        "files.tests/: 'tests/' names a folder; name each file",
        "criterion: must be `Tests pass: COMMAND`",
    ]
    held_out = {"files": {HIDDEN: "held-out/test_hidden.py"}}
    (line,) = problems(project.write(held_out))
    assert "held_out: needs a `criterion`" in line
    assert problems(project.write({"files": {}, "criterion": CRITERION}))
    load_plan(project.write(held_out, criteria=["Tests pass: pytest"]))


def test_a_held_out_file_that_git_tracks_is_a_problem(project: Project) -> None:
    project.repo.git("checkout", "--quiet", "main")
    project.repo.commit("seen", {HIDDEN: "x"})
    path = project.holding(f"shop/{HIDDEN}")
    found = project.check(path)
    file = project.repo.path / HIDDEN
    assert found.warnings == []
    (problem,) = found.problems
    assert problem == (
        f"{path}:14: tasks.0.held_out.files.{HIDDEN}: git tracks {file}, so that the agents in "
        f"{project.repo.path} see it; keep the plan and its held-out files outside of the "
        "repository"
    )
    # Work starts at main, whatever is checked out.
    project.repo.git("checkout", "--quiet", "task")
    project.repo.write({HIDDEN: "x"})
    assert project.check(path).problems == found.problems


def test_a_tracked_plan_with_held_out_tests_is_a_problem(project: Project) -> None:
    path = project.holding("../held-out/test_hidden.py", file="shop/plan.yaml", repo=".")
    (warning,) = project.check(path).warnings
    assert f"tasks.0.held_out: {path} is in the folder of {project.repo.path}" in warning
    project.repo.git("add", "plan.yaml")
    (problem,) = project.check(path).problems
    assert f"git tracks {path}" in problem


def test_an_untracked_file_in_the_repository_is_a_warning_unless_it_is_copied(
    project: Project,
) -> None:
    project.repo.write({"secret/test_hidden.py": "x"})
    source = "shop/secret/test_hidden.py"
    found = project.check(project.holding(source))
    assert found.problems == []
    (warning,) = found.warnings
    assert "is in the folder of" in warning
    copied = project.check(project.holding(source, copy=["./secret/test_hidden.py"]))
    assert copied.warnings == []
    assert "is copied into every work tree" in copied.problems[0]


def test_a_file_whose_content_git_has_anywhere_is_a_warning(project: Project) -> None:
    project.repo.commit("seen", {"old_name.py": project.source.read_text()})
    project.repo.commit("gone", {"old_name.py": "x"})
    found = project.check(project.holding())
    assert found.problems == []
    (warning,) = found.warnings
    assert f"git has the content of {project.source} in {project.repo.path}" in warning
    project.source.write_text("# no tests\n")
    project.repo.commit("the same", {"a.py": "# no tests\n"})
    assert project.check(project.holding()) == ([], [])


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("pytest -q tests/test_new.py", "no test"),
        ("pytest tests/test_login.py::test_login", "only 1 test"),
        ("python3 -m unittest tests.test_login", "only 1 test"),
        ("pytest tests", "only 1 test"),
        ("pytest tests/test_many.py", None),
        ("pytest -q", None),
        ("make test", None),
        ("python3 run_tests.py", None),
        ("python3 manage.py test", None),
        ("sh run.sh", None),
        ("pytest --doctest-modules src", None),
    ],
)
def test_a_task_with_few_visible_tests_and_no_others_is_named(
    project: Project, command: str, told: str | None
) -> None:
    if "many" in command:
        many = "".join(f"def test_{number}(): ...\n" for number in range(3))
        project.repo.on_main({"tests/test_many.py": many})
    project.repo.on_main({"run_tests.py": "", "manage.py": "", "run.sh": "", "src/a.py": ""})
    path = project.write(criteria=["It works", f"Tests pass: {command}"])
    found = project.check(path)
    assert found.problems == []
    lines = [line for line in found.warnings if "held_out" in line]
    assert len(lines) == (told is not None)
    if told is not None:
        assert f"tasks.0: its test criteria name files that have {told} so far" in lines[0]
    held = {"files": {HIDDEN: "held-out/test_hidden.py"}}
    path = project.write(held, criteria=[f"Tests pass: {command}"])
    assert not [line for line in project.check(path).warnings if "test criteria name" in line]


def test_only_plan_check_tells_of_few_visible_tests(project: Project) -> None:
    loaded = read_plan_file(project.write(criteria=["Tests pass: pytest tests/test_new.py"]))
    found = asyncio.run(preflight(loaded, loaded.plan, project.folder, agents=False))
    assert not any("held_out" in line for line in found.warnings)


@pytest.mark.requirement("OWN-13")
def test_expectations_that_no_file_could_change_are_named(project: Project) -> None:
    there = ["tests/", "tests/test_login.py", "**/test_*.py"]
    path = project.write(expectations_change=[*there, "nosuch/**"])
    (warning,) = project.check(path).warnings
    assert "tasks.0.expectations_change.3: nosuch/** matches no file of the repo shop" in warning
    document = yaml.safe_load(path.read_text())
    document["repos"]["shop"]["verification"] = {"expectations_change": ["tests/", "old/"]}
    del document["tasks"][0]["expectations_change"]
    path.write_text(yaml.safe_dump(document))
    (warning,) = project.check(path).warnings
    assert "repos.shop.verification.expectations_change.1: old/ matches no file" in warning


def test_the_files_of_changed_expectations_may_come_from_an_earlier_task(project: Project) -> None:
    path = project.write(expectations_change=["tests/"])
    document = yaml.safe_load(path.read_text())
    later = {"id": "b", "title": "B", "files_owned": ["b.py"], "depends_on": ["a"]}
    document["tasks"].append({**later, "expectations_change": ["new/"]})
    path.write_text(yaml.safe_dump(document))
    assert project.check(path) == ([], [])


def test_a_run_that_is_not_the_operator_says_how_to_become_it() -> None:
    client = RunServerClient(Server.at("http://127.0.0.1:1"), "s")
    with pytest.raises(Forbidden, match="only the operator may hold tests out") as refused:
        asyncio.run(client.spawn(bead_id="a", held_out={"files": {}}))
    assert refused.value.field == "held_out"
    assert "SHIFTBOSS_OPERATOR_TOKEN" in (refused.value.hint or "")


def test_a_task_without_test_criteria_names_no_files() -> None:
    task = PlanTask(id="a", title="A", files_owned=[], criteria=["Type check passes: mypy tests"])
    assert files_named_by(task, ["tests/test_a.py"]) is None
