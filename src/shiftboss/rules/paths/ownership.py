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
    pyproject.toml noxfile.py dodo.py sitecustomize.py usercustomize.py mypy.ini .mypy.ini
    pyrightconfig.json ty.toml .pyre_configuration pytype.cfg .coveragerc .python-version pytest.py
    _pytest.py unittest.py mypy.py .flake8 pylintrc .pylintrc pylintrc.toml .pylintrc.toml ruff.toml
    .ruff.toml .isort.cfg .bandit bandit.yaml .pydocstyle .pydocstyle.ini .style.yapf .yapfignore
    pipfile hatch.toml uv.toml pdm.toml poetry.toml pixi.toml pants.toml
"""
_JAVASCRIPT: Final = """
    package.json .npmrc .yarnrc .yarnrc.yml .pnpmfile.cjs pnpm-workspace.yaml bunfig.toml deno.json
    deno.jsonc .babelrc .swcrc .nycrc .c8rc .taprc turbo.json nx.json lerna.json angular.json
    biome.json biome.jsonc .nvmrc .node-version .eslintrc .eslintignore .eslintcache .oxlintrc.json
    .prettierrc .prettierignore .stylelintrc .stylelintignore .lintstagedrc tslint.json .jshintrc
    dprint.json .dprint.json
"""
_OTHER_LANGUAGES: Final = """
    go.mod go.work staticcheck.conf cargo.toml build.rs rust-toolchain rust-toolchain.toml
    clippy.toml .clippy.toml rustfmt.toml .rustfmt.toml nextest.toml tarpaulin.toml deny.toml
    cmakelists.txt cmakepresets.json cmakeuserpresets.json meson.build meson_options.txt
    meson.options configure configure.ac .clang-tidy .clang-format build.bazel build workspace
    workspace.bazel module.bazel .bazelrc .bazelversion .bazelignore buck .buckconfig
    gradle.properties gradle-wrapper.properties gradlew mvnw pom.xml build.sbt lombok.config
    .editorconfig rakefile gemfile .rspec .rspec-local .rubocop.yml .rubocop_todo.yml .standard.yml
    .reek.yml .ruby-version guardfile steepfile phpunit.xml phpunit.xml.dist composer.json
    phpstan.neon phpstan.neon.dist psalm.xml psalm.xml.dist phpcs.xml phpcs.xml.dist .phpcs.xml
    .phpcs.xml.dist .php-cs-fixer.php .php-cs-fixer.dist.php phpmd.xml pest.php package.swift
    .swiftlint.yml .swiftformat mix.exs .credo.exs .formatter.exs rebar.config stack.yaml
    cabal.project dune-project deps.edn project.clj bb.edn build.zig pubspec.yaml
    analysis_options.yaml global.json nuget.config .globalconfig directory.build.props
    directory.build.targets dotnet-tools.json .luacheckrc .busted
"""
_COMMANDS: Final = """
    makefile gnumakefile justfile .justfile taskfile.yml taskfile.yaml .tool-versions mise.toml
    .mise.toml .envrc sconstruct sconscript wscript build.ninja earthfile flake.nix shell.nix
    .shellcheckrc .yamllint .yamllint.yml .yamllint.yaml .sqlfluff .vale.ini .semgrepignore
"""
_GIT_AND_CI: Final = """
    .gitattributes .gitmodules .lfsconfig .pre-commit-config.yaml lefthook.yml lefthook.yaml
    .lefthook.yml .lefthook.yaml .gitleaks.toml .secrets.baseline .gitlab-ci.yml .travis.yml
    azure-pipelines.yml bitbucket-pipelines.yml jenkinsfile .drone.yml .cirrus.yml appveyor.yml
    .appveyor.yml .build.yml
"""
_AGENTS: Final = """
    .mcp.json agents.md agents.override.md claude.md gemini.md opencode.json opencode.jsonc
    .cursorrules .windsurfrules .clinerules .aider.conf.yml
"""
_NAMES: Final = frozenset(
    f"{_PYTHON} {_JAVASCRIPT} {_OTHER_LANGUAGES} {_COMMANDS} {_GIT_AND_CI} {_AGENTS}".split()
)

_KINDS: Final = re.compile(
    r".*\.(pth|egg-link|py[co]|mk|mak|make|cmake|bzl|gradle|gradle\.kts|sbt|rake|tsbuildinfo)"
    r"|makefile\.(?!md|rst|txt).+"
    r"|(requirements|constraints)[^/]*\.(txt|in)"
    r"|setup[-_.]?(tests?|jest|vitest|mocha)\.[cm]?[jt]sx?"
    r"|(tests?|jest|vitest|mocha)[-_.]setup\.[cm]?[jt]sx?"
    r"|(spec|rails|test)_helper\.(rb|exs)"
    r"|\.golangci\.(ya?ml|toml|json)"
    r"|(checkstyle|pmd|spotbugs|findbugs|detekt)[^/]*\.(xml|ya?ml)"
    r"|(jest|vitest|playwright|mocha|vite|babel|karma|cypress|ava|nyc|eslint|wdio|jasmine|prettier"
    r"|stylelint|xo|webpack|rollup|esbuild|tsup|next|nuxt|svelte|astro|lint-staged|commitlint)"
    r"\.(config|conf|setup|workspace)\..+"
    r"|\.(mocharc|babelrc|eslintrc|nycrc|c8rc|swcrc|prettierrc|stylelintrc|lintstagedrc"
    r"|markdownlint|markdownlint-cli2)\..+"
    r"|[jt]sconfig(\..+)?\.json"
    # Many tools load these by themselves; the others are examples for people.
    r"|\.env(\.(?!example|sample|template|dist).+)?"
)

# Everything below a folder with one of these names is protected, caches among them: type checkers
# and test runners believe what they find there.
_TOOL_FOLDERS: Final = """
    .github .gitlab .forgejo .gitea .circleci .woodpecker .buildkite .husky .githooks .claude
    .cursor .codex .gemini .opencode .cargo .yarn .mvn node_modules site-packages .venv .tox .nox
    .eggs __pycache__ .mypy_cache .pytest_cache .ruff_cache .clj-kondo
"""
_FOLDERS: Final = frozenset(_TOOL_FOLDERS.split())
# Metadata of an installed package: its entry points name plug-ins that test runners load.
_METADATA: Final = (".dist-info", ".egg-info")
# A module or package with one of these names would be imported at the start, or instead of the test
# runner, wherever it is.
_IMPORTED_AT_START: Final = "pytest _pytest unittest mypy conftest sitecustomize usercustomize"
_RUNNERS: Final = frozenset(_IMPORTED_AT_START.split())
# Jest replaces installed packages by the files of this folder, if it is at the top.
_MOCKS: Final = "__mocks__"

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
    parts = path.casefold().split("/")
    name = parts[-1]
    # The name itself counts as a folder: it may be a link to one.
    if name in _NAMES or _KINDS.fullmatch(name) or not _FOLDERS.isdisjoint(parts):
        return True
    if any(part.endswith(_METADATA) for part in parts) or parts[0] == _MOCKS:
        return True
    module = module_of(path)
    return module is not None and module[-1:] != () and module[-1] in _RUNNERS


def shadowed_module(path: str) -> str | None:
    """The module of Python or of a test runner that would be replaced by the file or its folder."""
    module = module_of(path)
    if not module or module[:-1] not in _IMPORT_ROOTS:
        return None
    name = module[-1]
    is_known = name in STANDARD_MODULES or name in RUNNER_MODULES or name.startswith("pytest_")
    return name if is_known else None


def is_top_level(module: tuple[str, ...]) -> bool:
    """Whether Python commonly finds the module by its last name alone."""
    return module[:-1] in _IMPORT_ROOTS


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
            return by_name("is a submodule")
        if is_protected(path):
            return by_name("configures tests or tools")
        shadowed = shadowed_module(path)
        if shadowed is not None:
            return by_name(f"would be imported instead of the module {shadowed}")
        if self._owned.covers(path) or self._generated.covers(path):
            return None
        return PathRefusal("is not in files_owned", "revert it, or ask for it with request_scope")

    def names_exactly(self, path: str) -> bool:
        """Whether the contract lists the path itself, not just a folder or a glob around it."""
        return self._owned.names_exactly(path) or self._generated.names_exactly(path)

    def is_readonly(self, path: str) -> bool:
        return self._readonly.covers(path)


def by_name(what: str) -> PathRefusal:
    return PathRefusal(
        f"{what}, so files_owned must list this exact path, not a folder or a glob",
        "revert it, or ask for this exact path with request_scope",
    )
