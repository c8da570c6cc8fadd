"""Whether a contract allows a path to be changed, and which files are protected."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from typing import Final, NamedTuple

from shiftboss.rules.paths.patterns import Scope, normalize_git_path

# Protected files change how tests, tools, git or agents behave. A worker that may write one of them
# can make a check pass without doing the work, even from its own folder. So no glob and no folder
# covers them: a contract must list each one, even if it does not exist yet.
_PYTHON: Final = """
    conftest.py pytest.ini .pytest.ini pytest.toml .pytest.toml tox.ini tox.toml setup.cfg setup.py
    pyproject.toml noxfile.py sitecustomize.py usercustomize.py mypy.ini .mypy.ini
    pyrightconfig.json .coveragerc .python-version pytest.py _pytest.py unittest.py mypy.py .flake8
    pylintrc .pylintrc ruff.toml .ruff.toml .isort.cfg .bandit
"""
_JAVASCRIPT: Final = """
    package.json .npmrc .yarnrc .yarnrc.yml .pnpmfile.cjs pnpm-workspace.yaml bunfig.toml deno.json
    deno.jsonc .babelrc .swcrc .nycrc turbo.json nx.json biome.json biome.jsonc .nvmrc .node-version
    .eslintrc .eslintignore .prettierrc .prettierignore .stylelintrc
"""
_OTHER_LANGUAGES: Final = """
    go.mod go.work cargo.toml build.rs rust-toolchain rust-toolchain.toml clippy.toml cmakelists.txt
    build.gradle build.gradle.kts settings.gradle settings.gradle.kts gradle.properties pom.xml
    rakefile gemfile .rspec phpunit.xml phpunit.xml.dist composer.json rustfmt.toml .rustfmt.toml
    .clippy.toml .rubocop.yml .rubocop_todo.yml meson.build meson_options.txt meson.options
    build.bazel workspace.bazel module.bazel .bazelrc phpstan.neon phpstan.neon.dist
"""
_COMMANDS: Final = """
    makefile gnumakefile justfile .justfile taskfile.yml taskfile.yaml .tool-versions mise.toml
    .envrc
"""
_GIT_AND_CI: Final = """
    .gitattributes .gitmodules .lfsconfig .pre-commit-config.yaml lefthook.yml lefthook.yaml
    .gitlab-ci.yml .travis.yml azure-pipelines.yml jenkinsfile
"""
_AGENTS: Final = """
    .mcp.json agents.md claude.md gemini.md opencode.json opencode.jsonc .cursorrules
"""
_NAMES: Final = frozenset(
    f"{_PYTHON} {_JAVASCRIPT} {_OTHER_LANGUAGES} {_COMMANDS} {_GIT_AND_CI} {_AGENTS}".split()
)

_KINDS: Final = re.compile(
    r".*\.(pth|mk|cmake|bzl)"
    r"|setuptests\.[cm]?[jt]sx?"
    r"|\.golangci\.(ya?ml|toml|json)"
    r"|(jest|vitest|playwright|mocha|vite|babel|karma|cypress|ava|nyc|eslint|wdio|jasmine)"
    r"\.(config|conf|setup|workspace)\..+"
    r"|\.(mocharc|babelrc|eslintrc|nycrc|swcrc|prettierrc|stylelintrc)\..+"
    r"|[jt]sconfig(\..+)?\.json"
)

# Everything below a folder with one of these names is protected.
_TOOL_FOLDERS: Final = """
    .github .gitlab .forgejo .gitea .circleci .woodpecker .husky .githooks .claude .cursor .codex
    .gemini .opencode .cargo .yarn .mvn node_modules site-packages
"""
_FOLDERS: Final = frozenset(_TOOL_FOLDERS.split())
# Metadata of an installed package: its entry points name plug-ins that test runners load.
_METADATA: Final = (".dist-info", ".egg-info")
# A package with one of these names would be imported instead of the test runner.
_RUNNERS: Final = frozenset(("pytest", "_pytest", "unittest", "mypy"))

# What test runners import before they import a test.
_IMPORTED_FIRST: Final = """
    pytest _pytest py pluggy iniconfig packaging attr attrs exceptiongroup tomli pygments coverage
    xdist execnet hypothesis anyio nose mypy mypyc mypy_extensions typing_extensions setuptools
    pkg_resources pip wheel tox nox
"""
RUNNER_MODULES: Final = frozenset(_IMPORTED_FIRST.split())
STANDARD_MODULES: Final = frozenset(name.casefold() for name in sys.stdlib_module_names)
# Python commonly searches these folders before its own library. Deeper ones are packages.
_IMPORT_ROOTS: Final = frozenset(
    ((), ("src",), ("lib",), ("python",), ("test",), ("tests",), ("src", "test"), ("src", "tests"))
)
_PYTHON_FILE: Final = re.compile(r"([^.]+)(?:\.[^.]+)*\.(?:pyi?|pyc|pyd|so)")


def is_protected(path: str) -> bool:
    """Whether the file is protected. Case is ignored, as some file systems do."""
    *folders, name = path.casefold().split("/")
    if name in _NAMES or _KINDS.fullmatch(name) or not _FOLDERS.isdisjoint(folders):
        return True
    if any(folder.endswith(_METADATA) for folder in folders):
        return True
    return name == "__init__.py" and folders[-1:] != [] and folders[-1] in _RUNNERS


def shadowed_module(path: str) -> str | None:
    """The module of Python or of a test runner that would be replaced by the file or its folder."""
    module = module_of(path)
    if not module or module[:-1] not in _IMPORT_ROOTS:
        return None
    name = module[-1]
    is_known = name in STANDARD_MODULES or name in RUNNER_MODULES or name.startswith("pytest_")
    return name if is_known else None


def is_import_root(folder: str) -> bool:
    return tuple(folder.casefold().rstrip("/").split("/")) in _IMPORT_ROOTS


def module_of(path: str) -> tuple[str, ...] | None:
    """The folders and the name of a Python module in lower case, or None if it is not a module.

    A package is identified by its `__init__`.
    """
    *folders, name = path.casefold().split("/")
    match = _PYTHON_FILE.fullmatch(name)
    if match is None:
        return None
    own = [] if match[1] in ("__init__", "__main__") else [match[1]]
    return (*folders, *own)


class PathRefusal(NamedTuple):
    """Why a path must not be changed, worded to follow the path, and what to do about it."""

    reason: str
    hint: str


class Ownership:
    """`readonly` takes precedence over `owned`. `generated` may change as well.

    It takes plain lists, because hooks have nothing else and no time to load the handoff types.
    """

    def __init__(
        self, owned: Iterable[str], readonly: Iterable[str], generated: Iterable[str]
    ) -> None:
        self._owned = Scope(owned)
        self._readonly = Scope(readonly)
        self._generated = Scope(generated)

    def refusal(self, path: str, *, is_submodule: bool = False) -> PathRefusal | None:
        """Why the path must not be changed, or None if it may."""
        try:
            normalize_git_path(path)
        except ValueError as error:
            return PathRefusal(f"{error}; no contract can cover it", "remove it from the branch")
        if self._generated.names_exactly(path):
            return None
        if self._readonly.covers(path):
            return PathRefusal(
                "is in files_readonly",
                "revert it, or ask for the change with request_scope and give a reason",
            )
        if self._owned.names_exactly(path):
            return None
        if is_submodule:
            return _by_name("is a submodule")
        if is_protected(path):
            return _by_name("configures tests or tools")
        shadowed = shadowed_module(path)
        if shadowed is not None:
            return _by_name(f"would be imported instead of the module {shadowed}")
        if self._owned.covers(path) or self._generated.covers(path):
            return None
        return PathRefusal("is not in files_owned", "revert it, or ask for it with request_scope")

    def is_readonly(self, path: str) -> bool:
        return self._readonly.covers(path)


def _by_name(what: str) -> PathRefusal:
    return PathRefusal(
        f"{what}, so files_owned must list this exact path, not a folder or a glob",
        "revert it, or ask for this exact path with request_scope",
    )
