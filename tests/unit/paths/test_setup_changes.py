"""What setup commands may leave behind in a checkout."""

from __future__ import annotations

import pytest

from shiftboss.rules.paths.setup_changes import (
    SetupChanges,
    is_bytecode,
    must_be_expanded,
    setup_violations,
)

pytestmark = pytest.mark.requirement("OWN-16")

TRACKED = frozenset(
    ["src/app.py", "tests/test_app.py", "package-lock.json", "src/core/__init__.py"]
)


def refused(*added: str, changed: tuple[str, ...] = (), **members: object) -> dict[str | None, str]:
    ignored = members.get("ignored", ())
    generated = members.get("generated", ())
    assert isinstance(ignored, tuple)
    assert isinstance(generated, tuple)
    changes = SetupChanges(changed, added, ignored, TRACKED)
    return {violation.path: violation.message for violation in setup_violations(changes, generated)}


def test_a_tracked_file_must_not_change() -> None:
    assert refused(changed=("tests/test_app.py",)) == {
        "tests/test_app.py": "tests/test_app.py was changed by the setup"
    }
    assert refused(changed=("package-lock.json", "src/app.py"), generated=("src/app.py",)) == {}


@pytest.mark.parametrize(
    "made",
    [
        "node_modules/",
        "web/node_modules/",
        ".venv/",
        "src/app.egg-info/",
        "target/",
        "build/",
        "packages/a/dist/",
    ],
)
def test_tools_make_folders(made: str) -> None:
    assert refused(made) == {}


def test_other_new_files_must_be_ignored_or_generated() -> None:
    assert refused("made.txt", "made/") == {"made.txt": "made.txt is new", "made/": "made/ is new"}
    assert refused("made.txt", "made/", ignored=("made.txt", "made/")) == {}
    assert refused("made.txt", "made/", generated=("*.txt", "made/**")) == {}


@pytest.mark.parametrize(
    ("path", "instead_of"),
    [
        ("random.py", "the module random"),
        ("src/json/", "the module json"),
        ("lib/pluggy.py", "the module pluggy"),
        ("tests/unittest/", "the module unittest"),
        ("src/app/", "src/app.py"),
        ("src/app.cpython-311-x86_64-linux-gnu.so", "src/app.py"),
    ],
)
def test_nothing_may_be_imported_instead_even_if_it_is_ignored(path: str, instead_of: str) -> None:
    message = f"{path} is new and would be imported instead of {instead_of}"
    assert refused(path, ignored=(path,)) == {path: message}


@pytest.mark.parametrize("path", ["tests/conftest.py", "sitecustomize.py", "plugin.dist-info/"])
def test_what_configures_the_tests_is_refused_even_if_it_is_ignored(path: str) -> None:
    assert list(refused(path, ignored=(path,))) == [path]


def test_folders_that_python_imports_from_are_looked_into() -> None:
    assert must_be_expanded("lib/")
    assert must_be_expanded("src/tests/")
    assert not must_be_expanded("node_modules/")


def test_bytecode_beside_sources_is_told_from_that_of_packages() -> None:
    assert is_bytecode("src/__pycache__/")
    assert not is_bytecode(".venv/lib/__pycache__/")
