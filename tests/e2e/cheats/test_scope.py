"""Work that leaves its contract is refused, however it is hidden. Real git."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from shiftboss.protocol.claims.verdicts import Verdict
from tests.repos import Repo, outcomes, refused_paths, waiver
from tests.verifying import verify

pytestmark = pytest.mark.requirement("HO-04")


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return Repo(tmp_path / "repo")


def refused(verdict: Verdict, *paths: str) -> None:
    """The scope check failed for exactly these paths; each violation says what to do."""
    assert not verdict.accepted
    assert outcomes(verdict)["scope"] == "failed"
    assert refused_paths(verdict) == sorted(paths)
    assert len(verdict.violations) == len(paths)
    assert all(violation.hint for violation in verdict.violations)


def _unauthorised(repo: Repo) -> None:
    repo.write({"README.md": "# Mine\n"})


def _new_file(repo: Repo) -> None:
    repo.write({"src/authority.py": "x = 1\n"})


def _readonly(repo: Repo) -> None:
    repo.write({"src/lib/jwt.py": "def token(): return 'mine'\n"})


def _rename_out(repo: Repo) -> None:
    repo.git("mv", "src/auth/names.py", "src/names.py")


def _rename_in(repo: Repo) -> None:
    repo.git("mv", "src/lib/jwt.py", "src/auth/jwt.py")


def _delete(repo: Repo) -> None:
    repo.git("rm", "--quiet", "README.md")


def _mode(repo: Repo) -> None:
    (repo.path / "README.md").chmod(0o755)


def _folder_becomes_link(repo: Repo) -> None:
    repo.git("rm", "-r", "--force", "--quiet", "src/auth")
    (repo.path / "src" / "auth").symlink_to("lib")


def _conftest(repo: Repo) -> None:
    repo.write({"src/auth/conftest.py": "collect_ignore_glob = ['*']\n"})


def _sitecustomize(repo: Repo) -> None:
    repo.write({"src/auth/sitecustomize.py": "raise SystemExit(0)\n"})


def _attributes(repo: Repo) -> None:
    repo.write({"src/auth/.gitattributes": "* -diff merge=ours filter=x\n"})


def _configuration(repo: Repo) -> None:
    repo.write({"pytest.ini": "[pytest]\naddopts = --collect-only\n"})


@pytest.mark.parametrize(
    ("cheat", "paths"),
    [
        (_unauthorised, ["README.md"]),
        (_new_file, ["src/authority.py"]),
        (_readonly, ["src/lib/jwt.py"]),
        (_rename_out, ["src/names.py"]),
        (_rename_in, ["src/lib/jwt.py"]),
        (_delete, ["README.md"]),
        (_mode, ["README.md"]),
        (_folder_becomes_link, ["src/auth"]),
        (_conftest, ["src/auth/conftest.py"]),
        (_sitecustomize, ["src/auth/sitecustomize.py"]),
        (_attributes, ["src/auth/.gitattributes"]),
        (_configuration, ["pytest.ini"]),
    ],
)
def test_a_change_outside_the_contract_is_named(
    tmp_path: Path, repo: Repo, cheat: Callable[[Repo], None], paths: list[str]
) -> None:
    repo.write({"src/auth/login.py": "def login():\n    return 1\n"})
    cheat(repo)
    repo.commit("work")
    (verdict,) = verify(tmp_path, repo.job())
    refused(verdict, *paths)


def test_every_violation_is_named_at_once_and_criteria_are_not_run(
    tmp_path: Path, repo: Repo
) -> None:
    repo.commit("work", {"README.md": "x\n", "src/lib/jwt.py": "x\n", "a b/ü.txt": "x\n"})
    (verdict,) = verify(tmp_path, repo.job(criteria=["Command passes: touch ran"]))
    refused(verdict, "README.md", "src/lib/jwt.py", "a b/ü.txt")
    assert outcomes(verdict)["criterion"] == "unverifiable"


def test_readonly_takes_precedence_over_owned(tmp_path: Path, repo: Repo) -> None:
    repo.commit("work", {"src/lib/jwt.py": "x\n"})
    (verdict,) = verify(tmp_path, repo.job(owned=["src/"]))
    refused(verdict, "src/lib/jwt.py")


@pytest.mark.parametrize(
    ("path", "owned", "readonly"),
    [
        ("src/pluggy.py", ["src/**/*.py", "src/*.py"], []),
        ("random/__init__.py", ["**/*.py"], []),
        ("tests/json.py", ["tests/"], []),
        ("tests/test_login/__init__.py", ["tests/**"], ["tests/test_login.py"]),
        ("tests/test_login.cpython-311-x86_64-linux-gnu.so", ["tests/"], ["tests/test_login.py"]),
        ("fake-1.0.dist-info/entry_points.txt", ["*/*"], []),
        ("rules.mk", ["*"], []),
        ("tests/__pycache__/test_login.cpython-311.pyc", ["tests/"], ["tests/test_login.py"]),
        ("tests/unit/json.py", ["tests/"], []),
        ("src/auth/flags.inc", ["src/auth/"], []),
        ("src/auth/inner.inc", ["src/auth/"], []),
    ],
)
def test_no_glob_covers_a_file_that_takes_the_place_of_another(
    tmp_path: Path, repo: Repo, path: str, owned: list[str], readonly: list[str]
) -> None:
    repo.base = repo.commit(
        "set up",
        {
            "Makefile": "-include src/auth/*.inc\ninclude flags\n",
            "flags": "include src/auth/inner.inc\n",
            "tests/unit/test_unit.py": "def test_unit():\n    assert True\n",
        },
    )
    repo.git("branch", "--force", "main")
    repo.commit("work", {path: "x = 1\n"})
    (verdict,) = verify(tmp_path, repo.job(owned=owned, readonly=readonly))
    refused(verdict, path)


@pytest.mark.parametrize(
    ("path", "owned"),
    [
        ("src/auth/queue.py", ["src/auth/"]),
        ("src/shop/email/__init__.py", ["src/**"]),
        ("src/pluggy.py", ["src/pluggy.py"]),
        ("src/auth/login/__init__.py", ["src/auth/"]),
    ],
)
def test_a_module_of_a_package_may_have_the_name_of_a_standard_module(
    tmp_path: Path, repo: Repo, path: str, owned: list[str]
) -> None:
    repo.commit("work", {path: "x = 1\n"})
    (verdict,) = verify(tmp_path, repo.job(owned=owned))
    assert verdict.accepted, verdict.violations


def test_no_glob_covers_a_module_instead_of_a_dependency_that_the_tests_import(
    tmp_path: Path, repo: Repo
) -> None:
    """Tests may import a module that is there only after the work: what is not declared as a
    dependency is the task's to create."""
    repo.base = repo.commit(
        "set up",
        {
            "requirements.txt": "jsonschema==4.23\n",
            "tests/test_schema.py": "import jsonschema\nimport billing\nimport basket\n",
        },
    )
    repo.git("branch", "--force", "main")
    repo.commit(
        "work", {"src/billing.py": "x = 1\n", "basket/__init__.py": "", "jsonschema.py": ""}
    )
    everything = ["src/", "basket/", "*.py"]
    named = [*everything, "jsonschema.py"]
    cheat, allowed = verify(tmp_path, repo.job(owned=everything), repo.job(owned=named))
    refused(cheat, "jsonschema.py")
    assert [violation.path for violation in cheat.violations] == ["jsonschema.py"]
    assert allowed.accepted, allowed.violations


@pytest.mark.parametrize(
    "target", ["/etc/passwd", "../../../outside", "../../.git/config", "names.py/../../../../x"]
)
def test_a_link_out_of_the_tree_is_refused_even_if_owned(
    tmp_path: Path, repo: Repo, target: str
) -> None:
    (repo.path / "src/auth/link").symlink_to(target)
    repo.commit("work")
    (verdict,) = verify(tmp_path, repo.job())
    refused(verdict, "src/auth/link")


def test_a_submodule_must_be_named_exactly(tmp_path: Path, repo: Repo) -> None:
    entry = f"160000,{repo.base},src/auth/vendored"
    repo.git("update-index", "--add", "--cacheinfo", entry)
    repo.git("commit", "--quiet", "--message", "bump")
    by_folder, by_name = verify(
        tmp_path, repo.job(), repo.job(owned=["src/auth/", "src/auth/vendored"])
    )
    refused(by_folder, "src/auth/vendored")
    assert by_name.accepted


def test_a_change_hidden_in_a_merge_commit_is_found(tmp_path: Path, repo: Repo) -> None:
    repo.on_main({"docs/news.md": "landed\n"})
    repo.commit("work", {"src/auth/login.py": "x = 1\n"})
    repo.git("merge", "--quiet", "--no-commit", "main")
    repo.commit("Merge main", {"docs/news.md": "mine\n", "hidden.py": "x\n"})
    (verdict,) = verify(tmp_path, repo.job())
    refused(verdict, "docs/news.md", "hidden.py")
    assert {violation.commit for violation in verdict.violations} == {repo.head()}


def test_a_merge_that_discards_the_work_of_others_is_found(tmp_path: Path, repo: Repo) -> None:
    repo.on_main({"README.md": "# Landed\n"})
    repo.commit("work", {"src/auth/login.py": "x = 1\n"})
    repo.git("merge", "--quiet", "--strategy=ours", "--message", "Merge main", "main")
    (verdict,) = verify(tmp_path, repo.job())
    refused(verdict, "README.md")


def test_a_change_reverted_by_a_later_commit_is_named_with_its_commit(
    tmp_path: Path, repo: Repo
) -> None:
    sneaked = repo.commit("sneak", {"src/lib/jwt.py": "x = 1\n", "src/auth/login.py": "x = 1\n"})
    repo.git("checkout", "--quiet", repo.base, "--", "src/lib/jwt.py")
    repo.commit("take it back")
    (verdict,) = verify(tmp_path, repo.job())
    refused(verdict, "src/lib/jwt.py")
    assert verdict.violations[0].commit == sneaked
    assert "rewrite the branch" in verdict.violations[0].hint


def test_a_change_hidden_on_a_side_branch_of_a_merge_is_found(tmp_path: Path, repo: Repo) -> None:
    repo.commit("work", {"src/auth/login.py": "x = 1\n"})
    repo.git("checkout", "--quiet", "-b", "side", repo.base)
    sneaked = repo.commit("sneak", {"README.md": "x\n"})
    repo.git("checkout", "--quiet", "task")
    repo.git("merge", "--quiet", "--strategy=ours", "--message", "Merge side", "side")
    (verdict,) = verify(tmp_path, repo.job())
    refused(verdict, "README.md")
    assert verdict.violations[0].commit == sneaked


def test_moving_the_target_onto_the_work_hides_nothing(tmp_path: Path, repo: Repo) -> None:
    repo.commit("work", {"README.md": "x\n", "src/auth/login.py": "x = 1\n"})
    repo.git("branch", "--force", "main", "task")
    (verdict,) = verify(tmp_path, repo.job())
    refused(verdict, "README.md")


def test_names_that_collide_on_case_insensitive_machines_are_refused(
    tmp_path: Path, repo: Repo
) -> None:
    repo.commit("work", {"src/auth/Login.py": "x\n", "src/auth/new/a.py": "x\n"})
    repo.commit("work", {"src/auth/NEW/b.py": "x\n"})
    (verdict,) = verify(tmp_path, repo.job())
    refused(verdict, "src/auth/Login.py", "src/auth/NEW/b.py", "src/auth/new/a.py")


def test_a_name_that_is_not_utf8_is_refused(tmp_path: Path, repo: Repo) -> None:
    blob = repo.git("hash-object", "-w", "--stdin", stdin=b"x")
    repo.git(
        "update-index", "-z", "--index-info", stdin=f"100644 {blob}\tsrc/auth/".encode() + b"\xff\0"
    )
    repo.git("commit", "--quiet", "--message", "work")
    (verdict,) = verify(tmp_path, repo.job())
    refused(verdict, "src/auth/\\xff")


def test_claimed_files_outside_the_contract_are_named_with_the_documented_message(
    tmp_path: Path, repo: Repo
) -> None:
    repo.commit("work", {"src/auth/login.py": "x = 1\n"})
    touched = ["./src/auth/login.py", "src/lib/jwt.py", "src/types/user.py"]
    (verdict,) = verify(tmp_path, repo.job(files_touched=touched))
    assert not verdict.accepted
    assert [violation.message for violation in verdict.violations] == [
        "Touched unauthorized files: src/lib/jwt.py, src/types/user.py"
    ]


def test_leaving_files_out_of_the_claim_hides_nothing(tmp_path: Path, repo: Repo) -> None:
    repo.commit("work", {"src/auth/login.py": "x = 1\n", "README.md": "x\n"})
    (verdict,) = verify(tmp_path, repo.job(files_touched=["src/auth/login.py"]))
    refused(verdict, "README.md")


def test_a_waiver_covers_its_path_and_nothing_else(tmp_path: Path, repo: Repo) -> None:
    repo.commit("work", {"README.md": "x\n", "src/lib/jwt.py": "x\n"})
    one, both, other = verify(
        tmp_path,
        repo.job(waivers=[waiver("scope", "README.md")]),
        repo.job(waivers=[waiver("scope", "README.md"), waiver("scope", "src/lib/jwt.py")]),
        repo.job(waivers=[waiver("criterion", "*")]),
    )
    refused(one, "src/lib/jwt.py")
    assert both.accepted
    assert outcomes(both)["scope"] == "waived"
    refused(other, "README.md", "src/lib/jwt.py")
