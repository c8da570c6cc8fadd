"""Whether a contract allows a path to be changed, and which files are protected."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from shiftboss.rules.paths.patterns import Scope, normalize_git_path

# Protected files change how tests, tools, git or agents behave. A worker that may write one of them
# can make a check pass without doing the work, even from its own folder. So no glob and no folder
# covers them: a contract must list each one, even if it does not exist yet.
_PYTHON: Final = """
    conftest.py pytest.ini .pytest.ini pytest.toml .pytest.toml tox.ini tox.toml setup.cfg setup.py
    pyproject.toml noxfile.py sitecustomize.py usercustomize.py mypy.ini .mypy.ini
    pyrightconfig.json .coveragerc .python-version pytest.py _pytest.py unittest.py mypy.py
"""
_JAVASCRIPT: Final = """
    package.json .npmrc .yarnrc .yarnrc.yml .pnpmfile.cjs pnpm-workspace.yaml bunfig.toml deno.json
    deno.jsonc .babelrc .swcrc .nycrc turbo.json nx.json biome.json biome.jsonc .nvmrc .node-version
"""
_OTHER_LANGUAGES: Final = """
    go.mod go.work cargo.toml build.rs rust-toolchain rust-toolchain.toml clippy.toml cmakelists.txt
    build.gradle build.gradle.kts settings.gradle settings.gradle.kts gradle.properties pom.xml
    rakefile gemfile .rspec phpunit.xml phpunit.xml.dist composer.json
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
    r".*\.pth"
    r"|(jest|vitest|playwright|mocha|vite|babel|karma|cypress|ava|nyc|eslint|wdio|jasmine)"
    r"\.(config|conf|setup|workspace)\..+"
    r"|\.(mocharc|babelrc|eslintrc|nycrc|swcrc)\..+"
    r"|[jt]sconfig(\..+)?\.json"
)

# Everything below a folder with one of these names is protected.
_TOOL_FOLDERS: Final = """
    .github .gitlab .forgejo .gitea .circleci .woodpecker .husky .githooks .claude .cursor .codex
    .gemini .opencode .cargo .yarn .mvn node_modules site-packages
"""
_FOLDERS: Final = frozenset(_TOOL_FOLDERS.split())
# A package with one of these names would be imported instead of the test runner.
_RUNNERS: Final = frozenset(("pytest", "_pytest", "unittest", "mypy"))


def is_protected(path: str) -> bool:
    """Whether the file is protected. Case is ignored, as some file systems do."""
    *folders, name = path.casefold().split("/")
    if name in _NAMES or _KINDS.fullmatch(name) or not _FOLDERS.isdisjoint(folders):
        return True
    return name == "__init__.py" and folders[-1:] != [] and folders[-1] in _RUNNERS


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
