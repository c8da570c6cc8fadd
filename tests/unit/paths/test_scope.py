"""Which paths patterns cover, and where two sets of patterns overlap."""

from __future__ import annotations

import time
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shiftboss.rules.paths.braces import expand_braces, normalize_patterns
from shiftboss.rules.paths.overlap import TooMuchWorkError, Work, overlaps
from shiftboss.rules.paths.ownership import is_protected
from shiftboss.rules.paths.patterns import Scope, normalize_path


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("src/a.py", "src/a.py"),
        ("./src//a.py", "src/a.py"),
        ("src/./a.py", "src/a.py"),
        ("src/auth/", "src/auth/"),
        ("src/auth//", "src/auth/"),
        ("a name/with spaces", "a name/with spaces"),
        (unicodedata.normalize("NFD", "käse/é.py"), "käse/é.py"),
        (".github/x", ".github/x"),
        (".gitignore", ".gitignore"),
        ("...", "..."),
    ],
)
def test_paths_are_normalized(said: str, meant: str) -> None:
    assert normalize_path(said) == unicodedata.normalize("NFC", meant)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("", "empty"),
        ("./", "empty"),
        ("/etc/passwd", "absolute"),
        ("../x", r"\.\."),
        ("a/../b", r"\.\."),
        ("a\0b", "NUL"),
        (".git/hooks/x", r"\.git"),
        ("sub/.GIT/config", r"\.git"),
    ],
)
def test_an_invalid_path_is_refused_with_the_reason(said: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        normalize_path(said)
    assert not Scope(["**"]).covers(said)


@pytest.mark.parametrize(("said", "reason"), [("a\\b", "backslash"), ("C:/x", "absolute")])
def test_unusual_names_are_refused_from_people_but_accepted_from_git(
    said: str, reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        normalize_path(said)
    assert Scope(["**"]).covers(said)
    assert Scope([said]).names_exactly(said)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("src/a.py", "src/a.py"),
        ("src/auth", "src/auth/deep/x.ts"),
        ("src/auth/", "src/auth/x.ts"),
        ("src/*.py", "src/a.py"),
        ("src/*.py", "src/.py"),
        ("src/a?.py", "src/ab.py"),
        ("**", "anything/at/all"),
        ("**/x.py", "x.py"),
        ("**/x.py", "a/b/x.py"),
        ("a/**/x.py", "a/x.py"),
        ("a/**/x.py", "a/b/c/x.py"),
        ("a/**", "a/.hidden/x"),
        ("a/**/b/**/c", "a/b/b/x/c"),
        ("*", ".env"),
        ("app/[id]/page.tsx", "app/[id]/page.tsx"),
        ("app/[id]/*", "app/[id]/x"),
        ("a/{b,c}.ts", "a/{b,c}.ts"),
        ("docs/*/", "docs/en/deep/page.md"),
        ("a b/ü*.txt", "a b/über uns.txt"),
        ("x/a*b*c", "x/aXbbYc"),
        ("src/**.py", "src/a.py"),
        ("new\nline/*", "new\nline/\n"),
    ],
)
def test_a_pattern_covers(pattern: str, path: str) -> None:
    assert Scope([pattern]).covers(path)
    assert Scope(["other", pattern]).covers("./" + path)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("src/a.py", "src/a.pyc"),
        ("src/a.py", "xsrc/a.py"),
        ("src/auth", "src/authority/x"),
        ("src/auth/", "src/auth"),
        ("src/**", "src"),
        ("src/*.py", "src/sub/a.py"),
        ("src/*", "src/sub/a.py"),
        ("src/?.py", "src/ab.py"),
        ("**/x.py", "a/yx.py"),
        ("app/[id]/page.tsx", "app/i/page.tsx"),
        ("a/{b,c}.ts", "a/b.ts"),
        ("a/**/b", "a/xb"),
        ("src/**.py", "src/sub/a.py"),
        ("a.c", "abc"),
        ("SRC/a.py", "src/a.py"),
    ],
)
def test_a_pattern_does_not_cover(pattern: str, path: str) -> None:
    assert not Scope([pattern]).covers(path)


def test_letter_case_matters_unless_the_file_system_ignores_it() -> None:
    assert Scope(["SRC/*.py"], case_insensitive=True).covers("src/A.PY")
    assert Scope(["Straße/"], case_insensitive=True).covers("STRASSE/x")


def test_only_a_plain_path_names_a_file_exactly() -> None:
    scope = Scope(["tests/conftest.py", "lib", "src/", "**/pyproject.toml"])
    assert scope.names_exactly("tests/conftest.py")
    assert scope.names_exactly("./tests//conftest.py")
    assert not scope.names_exactly("lib/conftest.py")
    assert not scope.names_exactly("src/conftest.py")
    assert not scope.names_exactly("pyproject.toml")


def test_no_pattern_takes_exponential_time() -> None:
    patterns = ["*a" * 40 + "*b", "**/a/" * 20 + "b", "/".join(["**", "a*a"] * 20) + "/b"]
    started_at = time.process_time()
    scope = Scope(patterns)
    for path in ("a" * 240, "a/" * 110 + "a", "aa/" * 80 + "x"):
        assert not scope.covers(path)
    assert time.process_time() - started_at < 20


def test_matching_five_hundred_paths_against_two_thousand_patterns_is_fast() -> None:
    scope = Scope([f"src/p{n}/*.py" for n in range(1000)] + [f"lib/f{n}.py" for n in range(1000)])
    started_at = time.process_time()
    covered = sum(scope.covers(f"src/p{n}/deep/x.py") for n in range(250))
    covered += sum(scope.covers(f"lib/f{n}.py") for n in range(250))
    assert covered == 250
    assert time.process_time() - started_at < 20


@pytest.mark.parametrize(
    ("left", "right", "example"),
    [
        ("src/a.py", "src/a.py", "src/a.py"),
        ("src", "src/a.py", "src/a.py"),
        ("src/", "src/a/b.py", "src/a/b.py"),
        ("src/", "src/", "src/x"),
        ("src/auth/", "src/auth", "src/auth/x"),
        ("src/*.py", "src/a*", "src/a.py"),
        ("**/*.py", "src/**", "src/.py"),
        ("a/**/z", "a/b/**", "a/b/z"),
        ("*a", "b*", "ba"),
        ("?", "*", "x"),
        ("**", "**", "x"),
        (".*", "*", ".x"),
        (".gi?", "*t", None),
        ("*.git", "?git", None),
    ],
)
def test_an_overlap_has_an_example(left: str, right: str, example: str | None) -> None:
    found = overlaps([left], [right])
    assert [one.example for one in found] == ([example] if example else [])


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("src/a.py", "src/b.py"),
        ("src/auth", "src/authority"),
        ("src/*.py", "src/*.ts"),
        ("src/*.py", "src/sub/*.py"),
        ("src/**/a.py", "lib/**"),
        ("a*", "b*"),
        ("??", "???"),
        ("**/x", "**/y"),
        ("src/", "SRC/"),
    ],
)
def test_patterns_without_a_common_path_do_not_overlap(left: str, right: str) -> None:
    assert overlaps([left], [right]) == []
    assert overlaps([right], [left]) == []


def test_every_overlapping_pattern_is_named_as_written() -> None:
    found = overlaps(["docs/", "./src/a.py", "lib/*.py"], ["src/**", "lib/x.py", "lib/y.py"])
    assert [(one.left, one.right) for one in found] == [
        ("./src/a.py", "src/**"),
        ("lib/*.py", "lib/x.py"),
    ]
    assert overlaps(["SRC/a"], ["src/A"], case_insensitive=True)


def test_two_long_lists_of_files_are_compared_quickly() -> None:
    left = [f"src/a{n}.py" for n in range(2000)]
    right = [f"src/b{n}.py" for n in range(1999)] + ["src/a7.py"]
    started_at = time.process_time()
    assert [overlap.left for overlap in overlaps(left, right)] == ["src/a7.py"]
    assert time.process_time() - started_at < 20


def test_patterns_that_begin_or_end_differently_are_not_searched() -> None:
    work = Work()
    left = [f"src/m{n}/**/*.py" for n in range(300)]
    right = [f"lib/m{n}/**/*.py" for n in range(300)]
    assert overlaps(left, right, work=work) == []
    assert work.steps == 0, "other folders"
    assert overlaps(left[:20], [f"src/**/x{n}.ts" for n in range(20)], work=work) == []
    assert work.steps == 400, "one step for each pair"


def test_a_comparison_that_takes_too_much_work_is_given_up() -> None:
    """Each of these pairs takes tens of thousands of steps, and there are 65,536."""
    left, right = (expand_braces("g/" + "{a,b}" * 8 + "*x*y*z*" * 20 + end) for end in ("", "q"))
    work = Work(200_000)
    with pytest.raises(TooMuchWorkError):
        overlaps(left, right, work=work)
    assert work.steps < 300_000


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("g/" + "*x" * 17, "more than 16 wildcards"),
        ("*/" * 17, "more than 16 wildcards"),
        ("{a,b}/" + "*x?y" * 9, "more than 16 wildcards"),
        ("*" + "x" * 255, "more than 255 characters"),
    ],
)
def test_a_pattern_that_is_expensive_to_compare_is_refused(pattern: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        normalize_patterns(pattern)
    assert normalize_patterns("**/log-????-??-??/*.[ab]/*") == ["**/log-????-??-??/*.[ab]/*"]


_SEGMENT = st.text("ab.", min_size=1, max_size=3).filter(lambda one: one not in (".", ".."))
_PATH = st.lists(_SEGMENT, min_size=1, max_size=4).map("/".join)
_GLOB = st.one_of(
    st.text("ab.*?", min_size=1, max_size=4).filter(lambda one: one not in (".", "..")),
    st.just("**"),
)
_PATTERN = st.builds(
    lambda segments, end: "/".join(segments) + end,
    st.lists(_GLOB, min_size=1, max_size=4),
    st.sampled_from(["", "/"]),
)


@settings(max_examples=400, deadline=None)
@given(_PATTERN, _PATTERN, st.lists(_PATH, max_size=20))
def test_patterns_overlap_exactly_if_both_cover_some_path(
    left: str, right: str, paths: list[str]
) -> None:
    found = overlaps([left], [right])
    for one in found:
        assert Scope([left]).covers(one.example)
        assert Scope([right]).covers(one.example)
    if any(Scope([left]).covers(path) and Scope([right]).covers(path) for path in paths):
        assert found


@settings(max_examples=200, deadline=None)
@given(_PATTERN, _PATTERN)
def test_overlap_is_symmetric(left: str, right: str) -> None:
    assert bool(overlaps([left], [right])) == bool(overlaps([right], [left]))


@pytest.mark.parametrize(
    "path",
    [
        "conftest.py",
        "tests/new/conftest.py",
        "Conftest.PY",
        "lib/site.pth",
        "src/sitecustomize.py",
        "tsconfig.json",
        "web/tsconfig.build.json",
        "vitest.config.ts",
        "jest.config.js",
        ".mocharc.cjs",
        ".github/workflows/ci.yml",
        "sub/.claude/settings.json",
        "node_modules/jest/index.js",
        "Makefile",
        "crates/a/Cargo.toml",
        "pytest/__init__.py",
        "tests/_pytest/__init__.py",
        ".flake8",
        ".pylintrc",
        ".eslintrc",
        "web/.eslintignore",
        ".golangci.yml",
        ".rubocop.yml",
        "rustfmt.toml",
        "meson.build",
        "lib/BUILD.bazel",
        "cmake/flags.cmake",
        "rules.mk",
        "src/setupTests.js",
        "plugin-1.0.dist-info/entry_points.txt",
        "plugin.egg-info",
        "sitecustomize/__init__.py",
        "deep/usercustomize.so",
        "tests/conftest/__init__.py",
        "tests/__pycache__/test_login.cpython-311.pyc",
        "src/login.pyc",
        ".mypy_cache/3.11/login.meta.json",
        "app.tsbuildinfo",
        "node_modules",
        "__mocks__/chai.js",
        "src/setup-tests.ts",
        "src/jest-setup.js",
        "spec/spec_helper.rb",
        ".pylintrc.toml",
        "web/.eslintrc.cjs",
        "eslint.config.mjs",
        "lib/BUILD",
        "build.gradle.kts",
        "gradle/checks.gradle",
        "config/checkstyle.xml",
        "Makefile.common",
        "requirements-dev.txt",
        ".env",
        ".env.test",
        ".editorconfig",
    ],
)
def test_files_that_configure_tests_and_tools_are_protected(path: str) -> None:
    assert is_protected(path)


@pytest.mark.parametrize(
    "path",
    [
        "src/a.py",
        "tests/test_conftest.py",
        "docs/Makefile.md",
        "unittest/main.cc",
        "package-lock.json",
        "src/__init__.py",
        "__init__.py",
        "github/x",
        "config.json",
        ".env.example",
        "src/__mocks__/api.js",
        "src/mypy_plugin.py",
        "build/x.txt",
        "src/setup.ts",
        "src/environment.ts",
        "docs/requirements.md",
        "Cargo.lock",
        "src/tasks.py",
    ],
)
def test_other_files_are_not_protected(path: str) -> None:
    assert not is_protected(path)
