"""Files that would be used instead of those that the work is checked with."""

from __future__ import annotations

import pytest

from shiftboss.rules.paths.changes import SYMLINK, FileChange
from shiftboss.rules.paths.declared_dependencies import NONE_USED, ThirdParty
from shiftboss.rules.paths.ownership import Ownership
from shiftboss.rules.paths.shadowing import Shadowing, included_patterns, is_makefile

pytestmark = pytest.mark.requirement("HO-04")

NAMES = [
    "tests/test_login.py",
    "tests/unit/test_sums.py",
    "tests/package/__init__.py",
    "tests/package/test_more.py",
    "checks/run.py",
    "checks/__init__.py",
    "suite/__init__.py",
    "checks/queue.py",
    "web/helpers.ts",
    "web/mine.ts",
]
READONLY = ["tests/test_login.py", "checks/run.py", "web/helpers.ts"]


def added(path: str, mode: str = "100644", status: str = "A") -> FileChange:
    return FileChange(path, status, "000000", mode, "0" * 40, "1" * 40)


def reason(
    file: FileChange,
    *,
    third_party: ThirdParty = NONE_USED,
    owned: tuple[str, ...] = ("**",),
    criterion: str = "Command passes: python3 checks/run.py",
    includes: dict[str, str] | None = None,
) -> str | None:
    ownership = Ownership(owned, READONLY, [])
    names = [*NAMES, file.path]
    shadowing = Shadowing(ownership, names, [criterion], [], includes or {}, third_party)
    found = shadowing.refusal(file)
    return None if found is None else found.reason


@pytest.mark.parametrize(
    ("path", "replaced"),
    [
        ("tests/test_login/__init__.py", "tests/test_login.py"),
        ("tests/test_login/__init__.pyc", "tests/test_login.py"),
        ("tests/test_login.abi3.so", "tests/test_login.py"),
        ("web/helpers.js", "web/helpers.ts"),
        ("web/helpers.mjs", "web/helpers.ts"),
        ("web/helpers.tsx", "web/helpers.ts"),
    ],
)
def test_a_twin_of_a_readonly_file_is_refused_even_if_it_is_named(path: str, replaced: str) -> None:
    expected = f"would be imported instead of {replaced}, which the task may not change"
    assert reason(added(path)) == expected
    assert reason(added(path), owned=(path,)) == expected


@pytest.mark.parametrize("path", ["web/mine.js", "web/helpers.d.ts", "web/helpers.css", "web/x.js"])
def test_other_twins_are_fine(path: str) -> None:
    assert reason(added(path)) is None


def test_a_link_can_be_a_package() -> None:
    assert reason(added("tests/test_login", SYMLINK)) is not None
    assert reason(added("json", SYMLINK)) is not None
    assert reason(added("src/pluggy", SYMLINK)) is not None
    assert reason(added("deep/sitecustomize", SYMLINK)) is not None
    assert reason(added("docs/json", SYMLINK)) is None


@pytest.mark.parametrize(
    ("path", "criterion"),
    [
        ("checks/json.py", "Command passes: python3 checks/run.py"),
        ("checks/random/__init__.py", "Command passes: python3 -I checks/run.py"),
        ("tests/unit/random.py", "Tests pass: pytest"),
        ("tests/unit/pluggy.py", "Tests pass: pytest"),
        ("suite/json.py", "Tests pass: python3 -m unittest discover -s suite"),
        ("lib/json.py", "Tests pass: env PYTHONPATH=lib python3 -m unittest"),
        ("scripts/json.py", "Tests pass: pytest scripts"),
    ],
)
def test_modules_that_the_imports_of_a_check_find_first_must_be_named(
    path: str, criterion: str
) -> None:
    assert "would be imported instead of the module" in str(
        reason(added(path), criterion=criterion)
    )
    assert reason(added(path), criterion=criterion, owned=(path,)) is None


@pytest.mark.parametrize(
    "file",
    [
        added("tests/package/random.py"),  # a package is not searched
        added("suite/json.py"),
        added("app/queue.py"),
        added("checks/helper.py"),
        added("checks/queue.py", status="M"),  # it was there before
        added("checks/json.py", status="D"),
    ],
)
def test_other_modules_may_have_the_names_of_standard_modules(file: FileChange) -> None:
    assert reason(file) is None


def test_modules_from_elsewhere_that_tests_import_must_be_named() -> None:
    used = ThirdParty(frozenset(["jsonschema"]), frozenset(["app/code"]))
    for path in ("jsonschema.py", "src/jsonschema/__init__.py", "app/code/jsonschema.py"):
        found = reason(added(path), third_party=used)
        assert str(found).startswith("would be imported instead of the module jsonschema")
        assert reason(added(path), third_party=used, owned=(path,)) is None
        assert reason(added(path, status="M"), third_party=used) is None
        assert reason(added(path)) is None
    for path in ("src/shop/jsonschema.py", "src/jsonschema/more.py", "src/jsonschema.json"):
        assert reason(added(path), third_party=used) is None


def test_a_file_that_an_unowned_makefile_includes_must_be_named() -> None:
    includes = {"src/flags.inc": "Makefile", "mk/*.txt": "mk/all"}
    for path, makefile in (("src/flags.inc", "Makefile"), ("mk/a.txt", "mk/all")):
        refusal = reason(added(path, status="M"), includes=includes)
        assert str(refusal).startswith(f"is included by {makefile}, so files_owned must list")
        assert reason(added(path), includes=includes, owned=(path,)) is None
    assert reason(added("src/other.inc"), includes=includes) is None


@pytest.mark.parametrize(
    ("text", "patterns"),
    [
        ("include a.inc b.inc # c.inc\n", {"a.inc", "b.inc", "sub/a.inc", "sub/b.inc"}),
        ("-include ../x/a.inc\n", {"../x/a.inc", "x/a.inc"}),
        ("sinclude $(TOP)/a.inc\n", {"*/a.inc", "a.inc", "sub/*/a.inc"}),
        ("include $(wildcard mk/*.inc)\n", {"mk/*.inc", "sub/mk/*.inc"}),
        ("include \\\n  a.inc\n", {"a.inc", "sub/a.inc"}),
        ("include $(DEPS)\n-include ${OBJECTS:.o=.d}\n", set()),
        ("all:\n\tinclude a.inc\n# include a.inc\nincluded = 1\n", set()),
    ],
)
def test_what_a_makefile_includes(text: str, patterns: set[str]) -> None:
    assert included_patterns("sub/Makefile", text) == patterns


def test_names_of_makefiles() -> None:
    names = ["Makefile", "a/GNUmakefile", "makefile.inc", "x.mk", "y.mak", "z.make"]
    assert all(map(is_makefile, names))
    assert not any(map(is_makefile, ["make", "makefiles/x", "a.markdown"]))
