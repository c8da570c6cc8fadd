"""The commands for policy files: check, show, schema; and a server with a policy."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.commands import Done, running, shiftboss
from tests.repos import Repo
from tests.sqlite_files import make_sqlite_file

EXAMPLE = Path(__file__).parents[3] / "examples" / "policies" / "completion-contract.yaml"
BAD = """\
repos:
  alphavm: {pth: ../alphavm}
  adnet: {path: ../adnet, depends_on: [alphavm, alphavn]}
timeouts: {worker: soon}
"""
PROBLEMS = [
    "shiftboss.yaml:2: repos.alphavm.pth: is not a known key; did you mean 'path'?",
    (
        "shiftboss.yaml:2: repos.alphavm: needs a path or a url, "
        "because its jobs run here in a checkout"
    ),
    (
        "shiftboss.yaml:3: repos.adnet.depends_on.1: there is no repo 'alphavn'; "
        "did you mean 'alphavm'?"
    ),
    "shiftboss.yaml:4: timeouts.worker: must be a duration such as 30s, 20m or 1h 30m",
]


@pytest.mark.requirement("CC-05", "CC-06")
def test_the_contracts_ten_repos_are_valid_and_listed_by_phase() -> None:
    done = shiftboss("policy", "check", str(EXAMPLE))
    assert (done.code, done.err) == (0, "")
    *lines, kept = done.out.splitlines()
    assert "tasks that are spawned already keep their CI jobs" in kept
    assert lines == [
        f"{EXAMPLE} is valid: 10 repos, locking neighbours",
        "phase 1: acdc-core, sdk",
        "phase 2: alphavm, deltavm, adl",
        "phase 3: adnet, alphaos, deltaos, adl-examples",
        "phase 4: ac-dc",
    ]
    answer = json.loads(shiftboss("policy", "check", str(EXAMPLE), "--json").out)
    assert (answer["problems"], answer["phases"][3]) == ([], ["ac-dc"])


@pytest.mark.requirement("CC-05")
def test_every_problem_in_a_policy_file_is_reported_with_line_and_key(tmp_path: Path) -> None:
    (tmp_path / "shiftboss.yaml").write_text(BAD)
    done = shiftboss("policy", "check", folder=tmp_path)
    assert done.code == 1
    assert done.out.splitlines() == PROBLEMS
    assert done.err == "shiftboss.yaml has 4 problems\n"
    result = shiftboss("policy", "check", "--json", folder=tmp_path)
    assert (result.code, result.err) == (1, "")
    assert json.loads(result.out) == {"file": "shiftboss.yaml", "problems": PROBLEMS}
    missing = shiftboss("policy", "check", "other.yaml", folder=tmp_path)
    assert missing.code == 1
    assert missing.out == "other.yaml cannot be read: No such file or directory\n"


@pytest.mark.requirement("CC-05")
def test_unusable_repositories_are_reported_with_line_and_key(tmp_path: Path) -> None:
    Repo(tmp_path / "long", "sha256")
    Repo(tmp_path / "short")
    file = tmp_path / "shiftboss.yaml"
    file.write_text("repos:\n  short: {path: short}\n  long:\n    path: long\n")
    done = shiftboss("policy", "check", folder=tmp_path)
    assert (done.code, done.err) == (1, "shiftboss.yaml has 1 problem\n")
    message = "shiftboss.yaml:4: repos.long.path: uses SHA-256 commit ids"
    assert done.out.startswith(message)
    file.write_text("repos:\n  short: {path: short}\n")
    good = shiftboss("policy", "check", folder=tmp_path)
    assert good.out.splitlines()[0] == "shiftboss.yaml is valid: 1 repo, locking neighbours"
    # One folder under two names.
    file.write_text("repos:\n  a: {path: short}\n  b:\n    path: ./short\n")
    twice = shiftboss("policy", "check", folder=tmp_path)
    assert twice.out == "shiftboss.yaml:4: repos.b.path: is the folder of 'a' as well\n"


@pytest.mark.requirement("CC-05", "CC-12")
def test_a_policy_is_shown_as_written_or_with_every_value_filled_in(tmp_path: Path) -> None:
    (tmp_path / "shiftboss.yaml").write_text("repos: {sdk: {path: sdk}}\nlocking: chain\n")
    shown = shiftboss("policy", "show", folder=tmp_path)
    assert (shown.code, shown.err) == (0, "")
    sdk = {"path": str((tmp_path / "sdk").resolve())}
    assert yaml.safe_load(shown.out) == {"repos": {"sdk": sdk}, "locking": "chain"}
    every = yaml.safe_load(shiftboss("policy", "show", "--effective", folder=tmp_path).out)
    assert every["timeouts"]["milestones"]["WORKING"] == {"timeout": 1200, "warning_at": 900}
    result = shiftboss("policy", "show", "--effective", "--json", folder=tmp_path)
    assert json.loads(result.out) == every
    (tmp_path / "again.yaml").write_text(yaml.safe_dump(every))
    assert shiftboss("policy", "check", "again.yaml", folder=tmp_path).code == 0
    schema = json.loads(shiftboss("policy", "schema").out)
    assert set(schema["properties"]) == set(every)


@pytest.mark.requirement("CC-05")
def test_a_server_does_not_start_with_an_invalid_policy(tmp_path: Path) -> None:
    (tmp_path / "shiftboss.yaml").write_text(BAD)
    serve = ("serve", "--port", "0", "--policy", str(tmp_path / "shiftboss.yaml"))
    db = ("--db", str(tmp_path / "state" / "shiftboss.db"))
    refused = shiftboss(*serve, *db)
    assert (refused.code, refused.out) == (1, "")
    assert f"{tmp_path}/{PROBLEMS[0]} (and 3 more)" in refused.err
    (tmp_path / "shiftboss.yaml").write_text("repos: {sdk: {path: sdk}}\n")
    with running(*serve, *db) as server:
        url = server.line().split()[2].rstrip(";")
        listed = shiftboss("repo", "list", "--json", url=url)
    assert [repo["repo"] for repo in json.loads(listed.out)["repos"]] == ["sdk"]


@pytest.mark.requirement("CC-05")
def test_a_policy_is_applied_compared_and_listed(tmp_path: Path) -> None:
    """Without a server: the database of the folder answers, as a server would."""
    file = tmp_path / "shiftboss.yaml"
    file.write_text("timeouts: {worker: 20m}\n")
    (tmp_path / ".shiftboss").mkdir(mode=0o700)
    make_sqlite_file(tmp_path / ".shiftboss" / "shiftboss.db")

    def run(*arguments: str) -> Done:
        return shiftboss("policy", *arguments, folder=tmp_path)

    refused = run("apply")
    assert refused.code == 1
    assert "shiftboss policy diff shiftboss.yaml" in refused.err
    assert "--yes" in refused.err
    first = run("apply", "--yes")
    assert first.code == 0, first.err
    assert "version 1 is in force" in first.out
    assert "already" in run("apply", "--yes").out
    file.write_text("# longer\ntimeouts: {worker: 25m}\n")
    assert run("diff").out == "~ timeouts.worker: 1200 -> 1500\n"
    doctor = shiftboss("doctor", folder=tmp_path)
    assert "was edited and not applied" in " ".join(doctor.out.split())
    answer = json.loads(run("apply", "--yes", "--json").out)
    assert (answer["version"], answer["changes"]) == (2, ["~ timeouts.worker: 1200 -> 1500"])
    assert run("diff").out == "shiftboss.yaml says the same as version 2\n"
    assert run("diff", "--from", "2", "--to", "1").out == "~ timeouts.worker: 1500 -> 1200\n"
    history = run("history").out.splitlines()
    assert [line.split()[0] for line in history] == ["2", "1"]
    assert all("operator" in line and str(file) in line for line in history)
    shown = run("show", "--version", "1").out
    assert shown.startswith("# version 1, not in force, applied at ")
    assert shown.endswith("timeouts: {worker: 20m}\n")
    assert "worker: 1500" in run("show", "--effective").out
