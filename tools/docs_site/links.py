"""Links between the files of the repository, as links between the pages of the site.

The pages are written for a forge, where a link is the path of a file. The site has the pages of
docs/ at its top, some pages from elsewhere, and every other file that a page links to as it is.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from typing import Final

# Pages that are not in docs/.
PAGES: Final = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "AGENTS.md": "contributing.md",
    "bench/README.md": "benchmarks.md",
}
FILES_FOLDER: Final = "files"

_FENCE: Final = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_LINK: Final = re.compile(r"(!?\[(?:[^\]\[]|\[[^\]]*\])*\]\()([^)\s]+)(\))")
# In HTML: a picture, or one of several for a colour scheme.
_SOURCE: Final = re.compile(r"(<(?:img|source)\b[^>]*?\s(?:src|srcset)=\")([^\"\s]+)(\")")
_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)


def site_path(repo_path: str) -> str:
    """Where a file of the repository is in the site."""
    if repo_path in PAGES:
        return PAGES[repo_path]
    if repo_path.startswith("docs/"):
        return repo_path.removeprefix("docs/")
    return f"{FILES_FOLDER}/{repo_path}"


def repo_path_of(page: str) -> str:
    """The file that a page of the site was written in."""
    outside = {site: repo for repo, site in PAGES.items()}
    return outside.get(page, f"docs/{page}")


def targets(markdown: str, repo_path: str) -> set[str]:
    """The files of the repository that a page links to."""
    found: set[str] = set()

    def note(target: str) -> str:
        found.add(target)
        return target

    _each_link(markdown, repo_path, note)
    return found


def as_in_site(markdown: str, repo_path: str) -> str:
    """The text with its links rewritten for the site."""
    folder = posixpath.dirname(site_path(repo_path))

    def relative(target: str) -> str:
        return posixpath.relpath(site_path(target), folder or ".")

    return _each_link(markdown, repo_path, relative)


def _each_link(markdown: str, repo_path: str, change: Callable[[str], str]) -> str:
    """Outside of code blocks, with the path of the link from the root of the repository."""
    folder = posixpath.dirname(repo_path)

    def replaced(link: re.Match[str]) -> str:
        path, hash_mark, anchor = link[2].partition("#")
        if not path or _SCHEME.match(path):
            return link[0]
        target = change(posixpath.normpath(posixpath.join(folder, path)))
        return f"{link[1]}{target}{hash_mark}{anchor}{link[3]}"

    def all_replaced(text: str) -> str:
        return _SOURCE.sub(replaced, _LINK.sub(replaced, text))

    parts: list[str] = []
    end = 0
    for fence in _FENCE.finditer(markdown):
        parts += [all_replaced(markdown[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, all_replaced(markdown[end:])])
