"""Whether a contract lets a path be changed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from shiftboss.rules.paths.patterns import Scope, as_written

# Files that change how tests, tools, git or agents behave.
#
# Whoever may write one of them can make a check pass without doing the work, also from a folder
# of their own. So no glob and no directory covers them: a contract names them one by one, also
# those that are not there yet.


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
_AGENTS: Final = ".mcp.json agents.md claude.md .cursorrules"
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

# Whatever lies below one of these, wherever it is.
_TOOL_FOLDERS: Final = """
    .github .gitlab .forgejo .gitea .circleci .woodpecker .husky .githooks .claude .cursor .codex
    .gemini .cargo .yarn .mvn node_modules site-packages
"""
_FOLDERS: Final = frozenset(_TOOL_FOLDERS.split())
# A package of this name is imported in place of the runner of the tests.
_RUNNERS: Final = frozenset(("pytest", "_pytest", "unittest", "mypy"))


def protected(path: str) -> bool:
    """Letter case does not count: some file systems do not see it."""
    *folders, name = path.casefold().split("/")
    if name in _NAMES or _KINDS.fullmatch(name) or not _FOLDERS.isdisjoint(folders):
        return True
    return name == "__init__.py" and folders[-1:] != [] and folders[-1] in _RUNNERS


class PathRefusal(NamedTuple):
    """Why not, to be read after the path; and what to do about it."""

    reason: str
    hint: str


class Ownership:
    """`files_readonly` wins over `files_owned`. What the policy lets be `generated` comes beside
    it. Made of lists: a hook has no more than those, and no time to load the types of a handoff."""

    def __init__(
        self, owned: Iterable[str], readonly: Iterable[str], generated: Iterable[str]
    ) -> None:
        self._owned = Scope(owned)
        self._readonly = Scope(readonly)
        self._generated = Scope(generated)

    def refusal(self, path: str, *, is_submodule: bool = False) -> PathRefusal | None:
        """None: the path may be changed."""
        try:
            as_written(path)
        except ValueError as error:
            return PathRefusal(f"{error}; no contract covers it", "take it out of the branch")
        if self._generated.names_exactly(path):
            return None
        if self._readonly.covers(path):
            return PathRefusal(
                "is in files_readonly",
                "change it back, or ask for the change with request_scope and say why",
            )
        if self._owned.names_exactly(path):
            return None
        if is_submodule:
            return _by_name("is a submodule")
        if protected(path):
            return _by_name("steers tests or tools")
        if self._owned.covers(path) or self._generated.covers(path):
            return None
        return PathRefusal(
            "is not in files_owned", "change it back, or ask for it with request_scope"
        )

    def is_readonly(self, path: str) -> bool:
        return self._readonly.covers(path)


def _by_name(what: str) -> PathRefusal:
    return PathRefusal(
        f"{what}, so files_owned must name it exactly, not by a folder or a glob",
        "change it back, or ask for exactly this path with request_scope",
    )
