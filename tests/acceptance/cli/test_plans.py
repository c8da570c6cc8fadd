"""The commands for plans: check, show, schema, and import from issues and checklists."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from shiftboss.errors import InvalidPlan
from shiftboss.orchestrator.run.plan_file import default_swarm_id, load_plan
from shiftboss.protocol.fields import is_swarm_id
from tests.commands import on_terminal, shiftboss

EXAMPLE = Path(__file__).parents[3] / "examples" / "plans" / "hello.yaml"
NOWHERE = "http://127.0.0.1:9"
PLAN = """\
goal: Ship the login
swarm: login
repos:
  app: {path: app}
  lib: {path: lib, branch: main}
agents: {fake: {kind: command, command: [sh, work.sh]}}
agent: fake
workers: 2
tasks:
- {id: base, title: The base, repo: lib, files_owned: [src/**], complexity: high}
- {id: form, title: A form, repo: app, depends_on: [base], files_owned: [src/form.py]}
- {id: sessions, title: Sessions, repo: app, depends_on: [base], files_owned: [src/]}
- {id: login, title: All of it, repo: app, depends_on: [form, sessions], files_owned: ["**"]}
"""
BAD = """\
goal: Ship it
repos: {app: {pth: app}}
tasks:
- {id: a.lock, title: A, files_owned: [../a.py], depends_on: [b]}
- {id: b, title: B, depends_on: [a.lock], agent: cluade}
"""
PROBLEMS = [
    "plan.yaml:2: repos.app.pth: is not a known key; did you mean 'path'?",
    (
        "plan.yaml:4: tasks.0.id: 'a.lock' ends with .lock, which git does not allow "
        "in a branch name, and the branch is named after the task"
    ),
    "plan.yaml:4: tasks.0.files_owned.0: '../a.py' contains ..; write the path without it",
    (
        "plan.yaml:4: tasks.0.depends_on: the tasks depend on each other in a cycle: "
        "a.lock -> b -> a.lock"
    ),
    "plan.yaml:5: tasks.1.files_owned: is missing",
    "plan.yaml:5: tasks.1.agent: there is no agent 'cluade'; did you mean 'claude'?",
]


def commit(repo: Path) -> None:
    identity = ["-c", "user.name=W", "-c", "user.email=w@shiftboss.invalid"]
    command = [
        "git",
        "-C",
        str(repo),
        *identity,
        "commit",
        "--quiet",
        "--allow-empty",
        "-m",
        "base",
    ]
    subprocess.run(command, check=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a plan and its repos, each with a commit."""
    for name in ("app", "lib"):
        subprocess.run(["git", "init", "--quiet", "-b", "main", tmp_path / name], check=True)
        commit(tmp_path / name)
    (tmp_path / "plan.yaml").write_text(PLAN)
    return tmp_path


@pytest.mark.requirement("OWN-01")
def test_a_valid_plan_is_confirmed_in_one_line(folder: Path) -> None:
    done = shiftboss("plan", "check", "plan.yaml", folder=folder)
    assert done == (
        0,
        "plan.yaml is valid: 4 tasks in 2 repos, 3 phases; swarm login\n",
        "",
    )
    answer = json.loads(shiftboss("plan", "check", "plan.yaml", "--json", folder=folder).out)
    assert answer == {
        "file": "plan.yaml",
        "problems": [],
        "warnings": [],
        "phases": [["base"], ["form", "sessions"], ["login"]],
    }


@pytest.mark.requirement("OWN-01")
def test_every_problem_in_a_plan_is_reported_with_line_and_key(tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text(BAD)
    done = shiftboss("plan", "check", "plan.yaml", folder=tmp_path)
    assert (done.code, done.err) == (1, "plan.yaml has 6 problems\n")
    assert sorted(done.out.splitlines()) == sorted(PROBLEMS)
    result = shiftboss("plan", "check", "plan.yaml", "--json", folder=tmp_path)
    assert (result.code, result.err) == (1, "")
    assert sorted(json.loads(result.out)["problems"]) == sorted(PROBLEMS)
    run = shiftboss("run", "plan.yaml", folder=tmp_path)
    assert (run.code, run.err) == (1, "plan.yaml has 6 problems\n")
    assert sorted(run.out.splitlines()) == sorted(PROBLEMS)
    missing = shiftboss("plan", "check", "other.yaml", folder=tmp_path)
    assert missing.out == "other.yaml cannot be read: No such file or directory\n"
    shown = shiftboss("plan", "show", "plan.yaml", folder=tmp_path)
    assert (shown.code, shown.out) == (1, "")
    assert "(and 5 more); nothing was started; `shiftboss plan check plan.yaml`" in shown.err


UNREADY = """\
goal: Ship it
repos:
  none: {path: none}
  empty: {path: empty}
  loose: {path: loose}
  typo: {path: typo, branch: mian}
  gone: {path: gone}
agents:
  ghost: {kind: command, command: [no-such-agent]}
agent: ghost
tasks:
- {id: a, title: A, repo: none, files_owned: [a]}
- {id: b, title: B, repo: empty, files_owned: [b], agent: codex}
- {id: c, title: C, repo: loose, files_owned: [c], criteria: ["Tests pass: no-such-test"]}
- {id: d, title: D, repo: typo, files_owned: [d]}
- {id: e, title: E, repo: gone, files_owned: [e]}
"""


@pytest.fixture
def unready(tmp_path: Path) -> Path:
    """A plan whose repos and agents are all unusable, each in another way."""
    (tmp_path / "none").mkdir()
    for name in ("empty", "loose", "typo"):
        subprocess.run(["git", "init", "--quiet", "-b", "main", tmp_path / name], check=True)
    commit(tmp_path / "loose")
    commit(tmp_path / "typo")
    subprocess.run(["git", "-C", tmp_path / "loose", "switch", "-q", "--detach"], check=True)
    (tmp_path / "plan.yaml").write_text(UNREADY)
    return tmp_path


@pytest.mark.requirement("OWN-01")
def test_everything_that_would_make_a_run_fail_is_reported_before_it(unready: Path) -> None:
    nothing = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}
    done = shiftboss("plan", "check", "plan.yaml", folder=unready, **nothing)
    assert (done.code, done.err) == (1, "plan.yaml has 7 problems\n")
    warning, *problems = done.out.splitlines()
    assert warning.startswith("warning: plan.yaml:14: tasks.2.criteria.0: no-such-test is not on")
    expected = [
        f"plan.yaml:3: repos.none.path: {unready}/none is not a git repository; create one: git",
        f"plan.yaml:4: repos.empty.path: {unready}/empty has no commits to start from; run: git",
        f"plan.yaml:5: repos.loose.branch: {unready}/loose has no branch checked out (detached",
        "plan.yaml:6: repos.typo.branch: there is no branch 'mian'; did you mean 'main'?",
        f"plan.yaml:7: repos.gone.path: there is no folder {unready}/gone; clone the repo first",
        "plan.yaml:9: agents.ghost: ghost cannot be started (tasks a, c, d, e): no-such-agent is",
        "plan.yaml:13: tasks.1.agent: codex cannot be started (task b): codex is not on the PATH.",
    ]
    assert len(problems) == len(expected)
    for problem, start in zip(problems, expected, strict=True):
        assert problem.startswith(start)
    assert "npm install --global @openai/codex" in problems[-1]

    before = sorted(unready.rglob("*"))
    simulated = shiftboss("run", "plan.yaml", "--dry-run", "--json", folder=unready, **nothing)
    answer = json.loads(simulated.out)
    assert (simulated.code, answer["problems"], len(answer["steps"])) == (1, problems, 5)
    for options in ((), ("--detach",)):
        run = shiftboss("run", "plan.yaml", "--json", *options, folder=unready, **nothing)
        assert (run.code, json.loads(run.out)["problems"]) == (1, problems)
    assert sorted(unready.rglob("*")) == before, "nothing was started"


@pytest.mark.requirement("OWN-01")
def test_a_plan_can_be_checked_without_agents_or_repositories(unready: Path) -> None:
    done = shiftboss("plan", "check", "plan.yaml", "--no-agents", folder=unready)
    assert (done.code, done.err) == (1, "plan.yaml has 5 problems\n")
    done = shiftboss("plan", "check", "plan.yaml", "--no-agents", "--no-repos", folder=unready)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("plan.yaml is valid: 5 tasks in 5 repos")


@pytest.mark.requirement("OWN-01")
def test_a_secret_in_a_plan_causes_a_warning_that_does_not_repeat_it(folder: Path) -> None:
    text = PLAN.replace("{path: app}", "{path: app, environment: {API_TOKEN: geheim}}")
    (folder / "plan.yaml").write_text(text)
    done = shiftboss("plan", "check", "plan.yaml", folder=folder)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("warning: plan.yaml:4: repos.app.environment.API_TOKEN: looks like")
    assert "geheim" not in done.out


@pytest.mark.requirement("OWN-01", "CC-17")
def test_a_plan_is_shown_by_phase_in_80_columns_without_colour(folder: Path) -> None:
    path = str(folder / "plan.yaml")
    seen = on_terminal("plan", "show", path, url=NOWHERE, columns=80)
    plain = shiftboss("plan", "show", path, COLUMNS="80").out
    on_screen = re.sub(r"\x1b\[[0-9;]*m", "", seen)
    assert max(len(line.rstrip()) for line in on_screen.splitlines()) <= 80
    for text in (on_screen, plain):
        lines = [line.rstrip() for line in text.splitlines()]
        rows = [re.sub(" +", " ", line).strip() for line in lines if "normal" in line]
        assert rows == [
            "2 form * app normal base A form",
            "sessions app normal base Sessions",
            "3 login * app normal form, sessions All of it",
        ]
        assert "* critical path: base -> form -> login" in lines
        assert any(line.startswith("one after the other: form and sessions") for line in lines)
    answer = json.loads(shiftboss("plan", "show", path, "--json").out)
    assert answer["critical_path"] == ["base", "form", "login"]
    assert answer["traits"]["form"] == ["critical_path", "cross_repo"]
    assert answer["traits"]["base"] == ["high_complexity", "critical_path"]
    assert answer["plan"]["repos"]["app"]["path"] == str((folder / "app").resolve())


@pytest.mark.requirement("OWN-01")
def test_a_plan_shows_how_work_lands_and_which_tasks_need_a_review(folder: Path) -> None:
    def shown(review: str) -> str:
        text = PLAN.replace("goal:", f"landing: squash\n{review}goal:", 1)
        (folder / "plan.yaml").write_text(text)
        return shiftboss("plan", "show", "plan.yaml", folder=folder).out

    reviewed = shown("review: required\n")
    assert "squash; accepted work lands at once after your review\n" in reviewed
    assert "  REVIEW" in reviewed or " REVIEW " in reviewed
    assert reviewed.count(" yes ") == 4
    assert "squash; accepted work lands at once\n" in shown("")
    assert "REVIEW" not in shown("")


@pytest.mark.requirement("OWN-01")
def test_a_file_in_place_of_the_state_folder_is_a_problem(folder: Path) -> None:
    (folder / ".shiftboss").write_text("")
    done = shiftboss("plan", "check", "plan.yaml", folder=folder)
    assert done.code == 1
    assert "the run cannot keep its state in" in done.out


@pytest.mark.requirement("OWN-01", "CC-17")
def test_the_model_of_every_task_is_shown_and_none_is_chosen_by_default(folder: Path) -> None:
    for command in (("plan", "show", "plan.yaml"), ("run", "plan.yaml", "--dry-run")):
        shown = shiftboss(*command, folder=folder, COLUMNS="80")
        assert "model the agent's default" in re.sub(" +", " ", shown.out), shown.err
    (folder / "shiftboss.yaml").write_text("models: {workers: small, override: big}\n")
    answer = json.loads(shiftboss("plan", "show", "plan.yaml", "--json", folder=folder).out)
    assert answer["models"] == {"base": "big", "form": "big", "sessions": "big", "login": "big"}
    text = PLAN.replace("repo: lib,", "repo: lib, model: mine,")
    (folder / "plan.yaml").write_text(text)
    shown = shiftboss("run", "plan.yaml", "--dry-run", folder=folder, COLUMNS="80")
    rows = [line.split() for line in shown.out.splitlines()]
    assert ["0", "4", "1", "base", "*", "lib", "mine"] in rows
    assert ["4", "6", "1", "form", "*", "app", "big", "base"] in rows


@pytest.mark.requirement("OWN-01")
def test_a_dry_run_shows_what_would_start_when_and_does_nothing(folder: Path) -> None:
    before = sorted(folder.rglob("*"))
    command = ("run", "plan.yaml", "--dry-run")
    done = shiftboss(*command, url=NOWHERE, folder=folder, COLUMNS="80")
    assert (done.code, done.err) == (0, "")
    rows = [re.sub(" +", " ", line).strip() for line in done.out.splitlines()]
    assert rows[rows.index("FROM TO WORKER TASK REPO WAITS FOR") :][1:5] == [
        "0 4 1 base * lib",
        "4 6 1 form * app base",
        "6 8 1 sessions app base; form also owns src/form.py",
        "8 10 1 login * app form, sessions",
    ]
    assert sorted(folder.rglob("*")) == before
    (folder / "policy.yaml").write_text(
        "repos: {lib: {path: lib}, app: {path: app, depends_on: [lib]}}\n"
    )
    policy = ("--policy", "policy.yaml", "--workers", "3", "--json")
    answer = json.loads(shiftboss(*command, *policy, url=NOWHERE, folder=folder).out)
    assert (answer["workers"], answer["locked"], answer["length"]) == (3, [["app", "lib"]], 10)


@pytest.mark.requirement("OWN-01")
def test_the_schema_matches_the_plans_that_are_accepted(folder: Path) -> None:
    schema = json.loads(shiftboss("plan", "schema").out)
    assert set(schema["required"]) == {"goal", "repos", "tasks"}
    assert "copy" in schema["$defs"]["PlanRepo"]["properties"]
    anywhere = ("--no-agents", "--no-repos")
    assert shiftboss("plan", "check", str(EXAMPLE), *anywhere).code == 0


@pytest.mark.requirement("OWN-01")
def test_folders_come_from_the_plan_or_the_policy_beside_it(folder: Path) -> None:
    (folder / "plan.yaml").write_text(
        PLAN.replace("app: {path: app}", "app: {}").replace("swarm: login\n", "")
    )
    with pytest.raises(InvalidPlan, match=r"repos.app: has no path, and no shiftboss.yaml"):
        load_plan(folder / "plan.yaml")
    (folder / "shiftboss.yaml").write_text("repos: {app: {path: app, branch: trunk}}\n")
    plan = load_plan(folder / "plan.yaml")
    app = plan.repos["app"]
    assert (app.path, app.branch) == (str((folder / "app").resolve()), "trunk")
    assert plan.swarm == default_swarm_id(folder / "plan.yaml")
    shutil.rmtree(folder / "app")
    with pytest.raises(InvalidPlan, match=r"there is no folder .*; clone the repo first"):
        load_plan(folder / "plan.yaml")


@pytest.mark.requirement("OWN-01")
def test_two_names_for_one_folder_are_refused(folder: Path) -> None:
    (folder / "plan.yaml").write_text(PLAN.replace("path: lib", "path: lib/../app"))
    with pytest.raises(InvalidPlan, match=r"repos.lib.path: is the folder of 'app' as well"):
        load_plan(folder / "plan.yaml")


@pytest.mark.requirement("OWN-01")
def test_each_plan_file_has_its_own_stable_swarm_id(tmp_path: Path) -> None:
    names = ["plan.yaml", "other.yaml", "Ä plan ☂.yaml", f"{'long' * 50}.yaml", "one/plan.yaml"]
    swarm_ids = [default_swarm_id(tmp_path / name) for name in names]
    assert swarm_ids == [default_swarm_id(tmp_path / "one" / ".." / name) for name in names]
    assert len(set(swarm_ids)) == len(names)
    assert all(is_swarm_id(one) and len(one) <= 60 for one in swarm_ids)


CHECKLIST = """\
# Ship the login

- [ ] Log people in
  files: src/login.py
  criteria: Tests pass: `pytest -q`
  - [ ] Form
    - files: `src/form.py`
  - [x] Database
- [ ] Write it down
"""


@pytest.mark.requirement("OWN-01")
def test_a_checklist_becomes_a_plan_and_check_names_what_is_missing(folder: Path) -> None:
    (folder / "todo.md").write_text(CHECKLIST)
    command = ("plan", "import", "todo.md", "--from", "markdown", "--repo", "app=app")
    done = shiftboss(*command, "-o", "lib/new.yaml", folder=folder)
    assert (done.code, done.out) == (0, "")
    assert done.err.splitlines() == [
        "3 tasks, skipped 1 that are done",
        "files_owned is missing in write-it-down: add it",
        "then check the plan: shiftboss plan check lib/new.yaml",
    ]
    made = yaml.safe_load((folder / "lib" / "new.yaml").read_text())
    assert (made["goal"], made["repos"]) == ("Ship the login", {"app": {"path": "../app"}})
    assert made["tasks"][0] == {
        "id": "log-people-in",
        "title": "Log people in",
        "depends_on": ["form"],
        "files_owned": ["src/login.py"],
        "criteria": ["Tests pass: pytest -q"],
    }
    checked = shiftboss("plan", "check", "lib/new.yaml", folder=folder)
    assert checked.code == 1
    assert re.fullmatch(r"lib/new\.yaml:\d+: tasks\.2\.files_owned: is missing\n", checked.out)
    again = shiftboss(*command, "-o", "lib/new.yaml", folder=folder)
    assert (again.code, again.err) == (1, "lib/new.yaml exists already; name another file\n")
    bad = shiftboss(*command, "--repo", "nothing", folder=folder)
    assert (bad.code, bad.out) == (2, "")


@pytest.mark.requirement("OWN-01")
def test_open_issues_become_a_valid_plan(folder: Path) -> None:
    issues = [
        {"id": "bd-1", "title": "Done", "status": "closed"},
        {"id": "bd-3", "title": "Three", "dependencies": ["bd-1", "bd-2"], "priority": 0}
        | {"description": "Do it.\n\nFiles: src/three.py\n"},
        {"id": "bd-2", "title": "Two", "description": "files:\n- src/two/"},
    ]
    lines = "".join(f"{json.dumps(one)}\n" for one in issues)
    (folder / "issues.jsonl").write_text(lines)
    command = ("plan", "import", "issues.jsonl", "--from", "beads")
    printed = shiftboss(*command, "--repo", "app=app", folder=folder)
    assert printed.code == 0
    (folder / "new.yaml").write_text(printed.out)
    assert shiftboss("plan", "check", "new.yaml", "--no-agents", folder=folder).code == 0
    plan = load_plan(folder / "new.yaml")
    assert [(task.id, task.depends_on, task.priority) for task in plan.tasks] == [
        ("bd-2", [], 0),
        ("bd-3", ["bd-2"], 2),
    ]
    assert [task.files_owned for task in plan.tasks] == [["src/two/"], ["src/three.py"]]
    result = shiftboss(*command, "--json", folder=folder)
    assert [task["id"] for task in json.loads(result.out)["tasks"]] == ["bd-2", "bd-3"]
    (folder / "issues.jsonl").write_text(f"{lines}nonsense\n")
    refused = shiftboss(*command, folder=folder)
    assert (refused.code, refused.out) == (1, "")
    assert "issues.jsonl, line 4: not JSON" in refused.err
    assert shiftboss(*command, "--skip-bad", folder=folder).code == 0
