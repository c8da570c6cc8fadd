"""Cargo packages: which crate a file belongs to, and which crates of the repo it can name."""

from __future__ import annotations

import posixpath
import tomllib
from collections.abc import Iterator
from typing import Any, NamedTuple

from shiftboss.evidence.survey.imports.repo_view import RepoView

_TARGET_FOLDERS = ("tests", "examples", "benches", "src/bin")
_DEPENDENCIES = ("dependencies", "dev-dependencies", "build-dependencies")


class Crate(NamedTuple):
    """`folder` contains the modules of the root; `roots` are the files that may be the root."""

    package: str
    folder: str
    roots: tuple[str, ...]

    def files_of(self, module: str, repo: RepoView) -> set[str]:
        """A module is identified by the folder that would contain its submodules."""
        if module == self.folder:
            return set(self.roots) & repo.files
        return {f"{module}.rs", posixpath.join(module, "mod.rs")} & repo.files

    def module_of(self, path: str) -> str:
        folder, name = posixpath.split(path)
        if path in self.roots or name in ("mod.rs", "lib.rs", "main.rs"):
            return folder
        return posixpath.join(folder, name.removesuffix(".rs"))


def crate_of(path: str, repo: RepoView) -> Crate:
    manifest = repo.nearest(posixpath.dirname(path), "Cargo.toml")
    package = posixpath.dirname(manifest) if manifest else ""
    inner = path[len(package) :].lstrip("/")
    for target in _TARGET_FOLDERS:
        if inner.startswith(f"{target}/"):
            return _target(package, posixpath.join(package, target), path, repo)
    if "/" not in inner:
        return Crate(package, package, (path,))
    library = library_of(package, repo)
    roots = (*library.roots, *_programs(package, repo))
    if path in roots:
        return Crate(package, posixpath.dirname(path), (path,))
    return library._replace(roots=roots)


def _target(package: str, folder: str, path: str, repo: RepoView) -> Crate:
    """A test, an example or a program: a single file, or a folder with a `main.rs`."""
    name, slash, _ = path[len(folder) + 1 :].partition("/")
    if not slash:
        return Crate(package, folder, (path,))
    main = posixpath.join(folder, name, "main.rs")
    if main in repo.files:
        return Crate(package, posixpath.dirname(main), (main,))
    return Crate(package, folder, ())


def library_of(package: str, repo: RepoView) -> Crate:
    path = _table(cargo_manifest(package, repo).get("lib")).get("path", "src/lib.rs")
    root = posixpath.join(package, str(path))
    return Crate(package, posixpath.dirname(root), (root,))


def _programs(package: str, repo: RepoView) -> list[str]:
    listed = cargo_manifest(package, repo).get("bin")
    paths = [_table(program).get("path") for program in listed] if isinstance(listed, list) else []
    named = [path for path in paths if isinstance(path, str)]
    return [posixpath.join(package, path) for path in ("src/main.rs", *named)]


def libraries(package: str, repo: RepoView) -> dict[str, str]:
    """The packages of the repo that the code of this one can name, by the name that it uses."""
    packages = repo.once(_packages)
    folders = {_library_name(package, repo): package}
    for key, value in _dependencies(cargo_manifest(package, repo)):
        renamed = _table(value).get("package")
        folder = packages.get(str(renamed or key))
        if folder is not None:
            name = key.replace("-", "_") if renamed else _library_name(folder, repo)
            folders[name] = folder
    return folders


def cargo_manifest(package: str, repo: RepoView) -> dict[str, Any]:
    return repo.once(_manifests).get(package, {})


def _manifests(repo: RepoView) -> dict[str, dict[str, Any]]:
    manifests: dict[str, dict[str, Any]] = {}
    for name in repo.named("Cargo.toml"):
        try:
            manifests[posixpath.dirname(name)] = tomllib.loads(repo.read(name) or "")
        except (tomllib.TOMLDecodeError, RecursionError):
            continue
    return manifests


def _packages(repo: RepoView) -> dict[str, str]:
    folders: dict[str, str] = {}
    for folder, manifest in repo.once(_manifests).items():
        name = _table(manifest.get("package")).get("name")
        if isinstance(name, str):
            folders.setdefault(name, folder)
    return folders


def _library_name(package: str, repo: RepoView) -> str:
    manifest = cargo_manifest(package, repo)
    names = (_table(manifest.get(table)).get("name") for table in ("lib", "package"))
    return str(next((name for name in names if name), "")).replace("-", "_")


def _dependencies(manifest: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for tables in (manifest, *map(_table, _table(manifest.get("target")).values())):
        for name in _DEPENDENCIES:
            yield from _table(tables.get(name)).items()


def _table(value: Any) -> dict[str, Any]:
    """The value if it is a table: the manifests of others may be malformed."""
    return value if isinstance(value, dict) else {}
