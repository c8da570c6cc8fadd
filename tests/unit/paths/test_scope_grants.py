"""Which requested files a worker is granted automatically, and which need a decision."""

from __future__ import annotations

import pytest

from shiftboss.rules.paths.command_paths import CommandReferences
from shiftboss.rules.paths.scope_grants import why_not_granted

NO_COMMANDS = CommandReferences(["It works"], [])
NAMED = "is named by a command that checks the work"
TESTS = "belongs to the tests"
BESIDE = "is next to a script that checks the work, and may be imported by it"
SCRIPT = "is a script, which checks may call"


def why_not(path: str, *commands: str) -> str | None:
    criteria = [f"Command passes: {command}" for command in commands]
    return why_not_granted(path, [], CommandReferences(criteria, []))


@pytest.mark.parametrize(
    "path",
    [
        "b.py",
        "src/b.py",
        "src/ü c.py",
        "src/app/__init__.py",
        "src/app/__main__.py",
        "src/lib.rs",
        "docs/latest.md",
        "src/contest.py",
        "src/protest/x.py",
        "web/app/[id]/page.tsx",
        "data/rates.json",
        "src/Manifest.java",
        "inspect_all/x.go",
        "web/search.ts",
        "web/config.ts",
        "web/settings.tsx",
    ],
)
def test_a_plain_file_is_granted(path: str) -> None:
    assert why_not_granted(path, ["lib/"], NO_COMMANDS) is None


@pytest.mark.parametrize(
    "command",
    [
        "go test ./...",
        "npm test",
        "make check",
        "cargo test",
        "python3 -m pytest -q",
        "pytest -q tests/",
        "grep -q token src/auth/login.py",
        "python3 /opt/check.py",
        "git -C ../src/other diff",
    ],
)
def test_a_file_is_granted_if_no_command_names_it(command: str) -> None:
    assert why_not("src/other/b.py", command) is None
    assert why_not("src/other/b.go", command) is None


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("src/*.py", "may cover more than one file"),
        ("src/", "may cover more than one file"),
        ("src", "may cover more than one file"),
        (".env", "may cover more than one file"),
        ("LIB/x.py", "is read-only by contract"),
        ("sub/conftest.py", "influences how the work is checked"),
        ("package.json", "influences how the work is checked"),
    ],
)
def test_anything_but_a_plain_file_needs_a_decision(path: str, why: str) -> None:
    assert why_not_granted(path, ["lib/"], NO_COMMANDS) == why


@pytest.mark.parametrize(
    "path",
    [
        "tests/test_a.py",
        "test_a.py",
        "src/a_test.py",
        "src/Test_A.py",
        "tests/helper.py",
        "tests/data/rates.json",
        "src/test/resources/x.xml",
        "web/a.spec.ts",
        "web/__tests__/a.js",
        "web/__snapshots__/a.js.snap",
        "pkg/a_test.go",
        "pkg/testdata/x.txt",
        "src/LoginTest.java",
        "src/LoginTests.cs",
        "spec/login_spec.rb",
        "tests/it.rs",
        "fixtures/x.json",
    ],
)
def test_test_files_need_a_decision(path: str) -> None:
    assert why_not_granted(path, [], NO_COMMANDS) == TESTS


@pytest.mark.parametrize(
    ("path", "command"),
    [
        ("check.py", "python3 check.py"),
        ("check.py", "python3 ./sub/../check.py"),
        ("Check.py", "python3 check.py"),
        ("check.py", "python3 -I check.py --strict"),
        ("checks/check.rb", "ruby checks/check.rb"),
        ("a/run.js", "./a/run.js"),
        ("a/run.js", "sh -c 'node a/run.js && true'"),
        ("checks/deep/x.py", "mypy checks"),
        ("checks/x.txt", "grep -r token checks/"),
        ("src/x.py", "mypy ."),
        ("src/x.py", "mypy 'src/*.py'"),
        ("pkg/x.go", "go vet ./pkg/..."),
        ("cfg/strict.ini", "mypy --config-file=cfg/strict.ini src"),
        ("a/b.py", "runner a/b.py::case"),
        ("rules.yaml", "lint -crules.yaml"),
        ("args.txt", "javac @args.txt"),
        # Modules.
        ("check.py", "python3 -m check"),
        ("check.py", "python3 -mcheck"),
        ("src/app/check.py", "python3 -m app.check"),
        ("app/check/__init__.py", "python3 -m app.check"),
        ("app/check/__main__.py", "python3 -m app.check"),
        ("app/check/rules.py", "python3 -m app.check"),
        ("app/__init__.py", "python3 -m app.check"),
        ("src/app/__init__.py", "python3 -m app.check"),
        ("app/check.py", "python3 -c 'import app.check; app.check.main()'"),
        ("check.py", "python3 -c 'from check import main; main()'"),
        ("app/check.py", "python3 -m unittest app.check"),
        ("app/serve.py", "gunicorn --check-config app.serve:main"),
        ("plug.py", "pytest -p plug"),
        ("ruff/__init__.py", "ruff format --check"),
    ],
)
def test_files_named_by_a_command_need_a_decision(path: str, command: str) -> None:
    assert why_not(path, command) == NAMED
    assert why_not_granted(path, [], CommandReferences([], [command])) == NAMED


@pytest.mark.parametrize(
    ("path", "command"),
    [
        ("helper.py", "python3 check.py"),
        ("helper/__init__.py", "python3 check.py"),
        ("checks/helper.py", "python3.11 -B checks/check.py"),
        ("checks/helper.so", "./checks/check.py"),
    ],
)
def test_files_next_to_a_script_need_a_decision(path: str, command: str) -> None:
    assert why_not(path, command) == BESIDE


@pytest.mark.parametrize(
    "path",
    [
        *("mk/flags.inc", "config/ruff-base.toml", "lint/rules.yml", "etc/checkers.ini"),
        *("build/extra.props", "config/eslint-base.json", "src/.hidden.txt", "web/lintrules.js"),
    ],
)
def test_files_that_may_be_settings_of_a_tool_need_a_decision(path: str) -> None:
    """A Makefile or a pyproject.toml that the task does not own may include them."""
    assert why_not(path, "make check") == "may be settings of a tool that checks the work"


@pytest.mark.parametrize(
    "path",
    [
        ".flake8.cfg",
        ".pylintrc.toml",
        ".eslintrc.js",
        ".golangci.yml",
        ".rubocop.yml",
        "lib/x.cmake",
    ],
)
def test_configurations_of_linters_need_a_decision(path: str) -> None:
    assert why_not(path, "make lint") is not None


def test_files_in_another_folder_than_the_script_are_granted() -> None:
    assert why_not("src/helper.py", "python3 check.py") is None
    assert why_not("src/helper.py", "python3 check.py src2/helper.py") is None
    assert why_not("checks/helper.txt", "python3 checks/check.py") is None


@pytest.mark.parametrize(
    ("path", "name", "command"),
    [
        ("json.py", "json", "true"),
        ("src/Json.py", "json", "true"),
        ("json/__init__.py", "json", "true"),
        ("random.cpython-311-x86_64-linux-gnu.so", "random", "true"),
        ("src/types.pyi", "types", "true"),
        ("pluggy.py", "pluggy", "true"),
        ("pluggy/__init__.py", "pluggy", "true"),
        ("pytest_more.py", "pytest_more", "true"),
        ("src/ruff.py", "ruff", "ruff check"),
    ],
)
def test_files_that_shadow_a_python_module_need_a_decision(
    path: str, name: str, command: str
) -> None:
    assert why_not(path, command) == f"may be imported instead of {name}"


@pytest.mark.parametrize("path", ["scripts/x.py", "tools/deep/x.js", "bin/x.rb", "a/run.sh"])
def test_scripts_that_other_files_may_call_need_a_decision(path: str) -> None:
    assert why_not(path, "make check") == SCRIPT
