"""The third-party modules that the tests of a repository use, as far as its own files tell.

Tests import what the task has to create, and what is installed. Both are missing in the base, and
which modules are installed is decided by setup commands, in a checkout that nobody has made yet. So
the files that declare dependencies tell them apart: a module that the project gets from elsewhere
is not the task's to create, and one that it does not declare may well be its whole purpose.
"""

from __future__ import annotations

import configparser
import json
import posixpath
import re
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from shiftboss.rules.claims.kept_tests import is_harness_file
from shiftboss.rules.paths.ownership import is_top_level, module_of

_REQUIREMENTS: Final = re.compile(r"(?:requirements|constraints)[^/]*\.(?:txt|in)")
_LOCKS: Final = frozenset(("uv.lock", "poetry.lock", "pdm.lock", "pylock.toml"))
_OTHERS: Final = frozenset(("pyproject.toml", "setup.cfg", "pipfile", "pipfile.lock"))
_PYTEST_SECTIONS: Final = {
    "pytest.ini": "pytest",
    ".pytest.ini": "pytest",
    "tox.ini": "pytest",
    "setup.cfg": "tool:pytest",
}

_REQUIREMENT: Final = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:$|[<>=!~;\[@(#]|\s--)")
_IN_REPOSITORY: Final = re.compile(r"@\s*(?:file:|\.)")
# Members of a dependency, or of the source of a locked package, that is part of the repository.
_LOCAL_KEYS: Final = frozenset(("path", "workspace", "editable", "virtual", "directory"))
# Distributions whose module has another name. It is not guessed: pygame has no module `game`, so a
# task may create one.
_MODULES: Final = {
    "beautifulsoup4": "bs4",
    "djangorestframework": "rest_framework",
    "gitpython": "git",
    "kafka_python": "kafka",
    "mysqlclient": "mysqldb",
    "opencv_python": "cv2",
    "opencv_python_headless": "cv2",
    "pillow": "pil",
    "protobuf": "google",
    "psycopg2_binary": "psycopg2",
    "pycryptodome": "crypto",
    "pygithub": "github",
    "pyjwt": "jwt",
    "pynacl": "nacl",
    "pyopenssl": "openssl",
    "pyserial": "serial",
    "python_dateutil": "dateutil",
    "python_docx": "docx",
    "python_dotenv": "dotenv",
    "python_jose": "jose",
    "python_magic": "magic",
    "python_multipart": "multipart",
    "python_slugify": "slugify",
    "pyyaml": "yaml",
    "pyzmq": "zmq",
    "scikit_image": "skimage",
    "scikit_learn": "sklearn",
}


class ThirdParty(NamedTuple):
    """Modules from elsewhere that unowned tests import, and the folders that pytest is told to
    search before them. All in lower case."""

    modules: frozenset[str] = frozenset()
    folders: frozenset[str] = frozenset()


NONE_USED: Final = ThirdParty()


def describes_imports(path: str) -> bool:
    """Whether the file declares dependencies, or where tests import from."""
    return _declares_dependencies(path) or posixpath.basename(path).casefold() in _PYTEST_SECTIONS


def _declares_dependencies(path: str) -> bool:
    name = posixpath.basename(path).casefold()
    in_folder = posixpath.basename(posixpath.dirname(path)).casefold() == "requirements"
    is_listed = name in _LOCKS or name in _OTHERS or _REQUIREMENTS.fullmatch(name) is not None
    return is_listed or (in_folder and name.endswith((".txt", ".in")))


def declared_modules(files: Mapping[str, str]) -> frozenset[str]:
    """What the distributions that the files name provide, in lower case; without what is part of
    the repository, such as the project itself or a member of its workspace."""
    declared: set[str] = set()
    local: set[str] = set()
    for path, text in files.items():
        if not _declares_dependencies(path):
            continue
        try:
            for name, is_local in _declared_in(path, text):
                (local if is_local else declared).add(_canonical(name))
        except (ValueError, RecursionError, configparser.Error):
            continue  # a file that no tool can read declares nothing
    return frozenset(module for name in declared - local for module in _modules_of(name))


def searched_folders(files: Mapping[str, str]) -> frozenset[str]:
    """What the settings of pytest call `pythonpath`."""
    paths: set[str] = set()
    for path, text in files.items():
        try:
            folders = _python_path(posixpath.basename(path).casefold(), text)
        except (ValueError, RecursionError, configparser.Error):
            continue
        around = posixpath.dirname(path)
        paths |= {posixpath.normpath(posixpath.join(around, word)).casefold() for word in folders}
    return frozenset(paths)


def _python_path(name: str, text: str) -> list[str]:
    if name == "pyproject.toml":
        value = _member(tomllib.loads(text), "tool", "pytest", "ini_options", "pythonpath")
        listed = value if isinstance(value, list) else str(value or "").split()
        return [word for word in listed if isinstance(word, str)]
    if name not in _PYTEST_SECTIONS:
        return []
    parser = _ini(text)
    return parser.get(_PYTEST_SECTIONS[name], "pythonpath", fallback="").split()


def third_party_modules(
    candidates: Collection[str], declared: Collection[str], names: Iterable[str]
) -> frozenset[str]:
    """Those of the candidates that are declared, and are no modules of the repository. `names` are
    the files of the base."""
    own = {
        module[-1]
        for name in names
        if (module := module_of(name)) is not None and module and is_top_level(module)
    }
    return frozenset(candidates) & frozenset(declared) - own


def is_test_code(path: str) -> bool:
    return path.endswith(".py") and is_harness_file(path)


def imported_names(texts: Iterable[str], names: Iterable[str]) -> frozenset[str]:
    """Those of the names, in lower case, that one of the Python files imports."""
    patterns = {name: _import_of(name) for name in names}
    return frozenset(
        name for text in texts for name, pattern in patterns.items() if pattern.search(text)
    )


def _import_of(name: str) -> re.Pattern[str]:
    word = rf"{re.escape(name)}\b"
    return re.compile(
        rf"(?:^|[;:])[ \t]*(?:from[ \t]+{word}|import[ \t]+(?:[^#\n]*,[ \t]*)?{word})"
        rf"|(?:importorskip|import_module|__import__)\(\s*['\"]{word}",
        re.MULTILINE | re.IGNORECASE,
    )


def _declared_in(path: str, text: str) -> Iterator[tuple[str, bool]]:
    """Names of distributions, and whether they are part of the repository."""
    name = posixpath.basename(path).casefold()
    if name == "pyproject.toml":
        yield from _of_project(tomllib.loads(text))
    elif name in _LOCKS:
        yield from _of_lock(tomllib.loads(text))
    elif name == "pipfile":
        content = tomllib.loads(text)
        for key in ("packages", "dev-packages"):
            yield from _of_table(content.get(key))
    elif name == "pipfile.lock":
        content = json.loads(text)
        for group in content.values() if isinstance(content, dict) else ():
            yield from _of_table(group)
    elif name == "setup.cfg":
        yield from _of_setup(text)
    else:
        yield from _of_requirements(text.splitlines())


def _of_project(content: dict[str, Any]) -> Iterator[tuple[str, bool]]:
    for table in (content.get("project"), _member(content, "tool", "poetry")):
        own = _member(table, "name")
        if isinstance(own, str):
            yield own, True
    sources = _member(content, "tool", "uv", "sources")
    yield from ((name, True) for name, is_local in _of_table(sources) if is_local)
    yield from _below(content, is_listed=False)


def _below(node: Any, *, is_listed: bool) -> Iterator[tuple[str, bool]]:
    """Every list and table of dependencies. Tools call them `dependencies`, `dev-dependencies`,
    `optional-dependencies` and so on, each in a place of its own."""
    if isinstance(node, list):
        if is_listed:
            yield from _of_requirements(item for item in node if isinstance(item, str))
        return
    for key, value in node.items() if isinstance(node, dict) else ():
        names_some = str(key).endswith("dependencies") or key == "dependency-groups"
        is_table = isinstance(value, dict) and not any(
            isinstance(member, list) and key != "dependencies" for member in value.values()
        )
        if names_some and is_table:
            yield from _of_table(value)
        else:
            yield from _below(value, is_listed=is_listed or names_some)


def _of_lock(content: dict[str, Any]) -> Iterator[tuple[str, bool]]:
    for package in [*content.get("package", []), *content.get("packages", [])]:
        name, source = _member(package, "name"), _member(package, "source")
        if isinstance(name, str):
            is_folder = _member(source, "type") in ("directory", "file")
            yield name, is_folder or _is_local(source) or _is_local(package)


def _of_table(table: Any) -> Iterator[tuple[str, bool]]:
    for name, value in table.items() if isinstance(table, dict) else ():
        yield str(name), _is_local(value)


def _of_setup(text: str) -> Iterator[tuple[str, bool]]:
    parser = _ini(text)
    own = parser.get("metadata", "name", fallback="")
    if own:
        yield own, True
    for option in ("install_requires", "tests_require"):
        yield from _of_requirements(parser.get("options", option, fallback="").splitlines())
    if parser.has_section("options.extras_require"):
        for _, value in parser.items("options.extras_require"):
            yield from _of_requirements(value.splitlines())


def _ini(text: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.read_string(text)
    return parser


def _of_requirements(lines: Iterable[str]) -> Iterator[tuple[str, bool]]:
    for line in lines:
        match = _REQUIREMENT.match(line)
        if match is not None:
            yield match[1], _IN_REPOSITORY.search(line) is not None


def _is_local(value: Any) -> bool:
    """Poetry and uv also know a list of sources."""
    if isinstance(value, list):
        return any(_is_local(item) for item in value)
    return isinstance(value, dict) and not _LOCAL_KEYS.isdisjoint(value)


def _member(node: Any, *keys: str) -> Any:
    for key in keys:
        node = node.get(key) if isinstance(node, dict) else None
    return node


def _canonical(name: str) -> str:
    """With `.` kept: it separates a namespace package from its parts."""
    return re.sub(r"[-_]+", "_", name.casefold())


def _modules_of(name: str) -> Iterator[str]:
    """`yaml` of PyYAML and of types-PyYAML, `ruamel` of ruamel.yaml."""
    plain = name.removeprefix("types_")
    yield plain.partition(".")[0]
    if plain in _MODULES:
        yield _MODULES[plain]
