"""Which file of the repo a JavaScript specifier means."""

from __future__ import annotations

import posixpath

from shiftboss.evidence.imports.node_packages import package_files
from shiftboss.evidence.imports.repo_view import RepoView, joined
from shiftboss.evidence.imports.typescript_config import aliased

_ENDINGS = (
    ".ts", ".tsx", ".d.ts", ".js", ".jsx", ".mjs", ".cjs", ".mts", ".cts", ".json", ".vue",
    ".svelte",
)  # fmt: skip
# TypeScript asks for what will be there when it is compiled.
_WRITTEN_FOR = {
    ".js": (".ts", ".tsx", ".d.ts", ".jsx"),
    ".jsx": (".tsx",),
    ".mjs": (".mts", ".d.mts"),
    ".cjs": (".cts", ".d.cts"),
}


def resolved(specifier: str, importer: str, repo: RepoView) -> set[str]:
    """Nothing, where it is a package from elsewhere or a part of the run-time."""
    specifier = specifier.partition("?")[0]
    folder = posixpath.dirname(importer)
    if specifier in (".", "..") or specifier.startswith(("./", "../")):
        target = joined(folder, specifier)
        return set() if target is None else _file(target, repo)
    for target in aliased(specifier, folder, repo):
        if found := _file(target, repo):
            return found
    for target in package_files(specifier, repo):
        if found := _file(target, repo):
            return found
    return set()


def _file(target: str, repo: RepoView) -> set[str]:
    """The file at the target, with the ending that was left out, or the index of a folder."""
    stem, ending = posixpath.splitext(target)
    candidates = [target]
    candidates += [stem + other for other in _WRITTEN_FOR.get(ending, ())]
    candidates += [target + other for other in _ENDINGS]
    candidates += [posixpath.join(target, "index" + other) for other in _ENDINGS]
    return next(({name} for name in candidates if name in repo.files), set())
