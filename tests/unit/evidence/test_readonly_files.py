"""The files that a task may read but not change."""

from __future__ import annotations

from shiftboss.evidence.survey.imports.repo_view import RepoView
from shiftboss.evidence.survey.ownership import OwnedFiles, covered
from shiftboss.evidence.survey.survey import READONLY_FILES_MAX, readonly_files

TEXTS = {
    "web/app.ts": 'import "./a"; import "../shared/b"',
    "web/a.ts": 'import "./deep"',
    "api/main.py": "import shared.tools",
    "api/broken.py": "def (",
    "cmd/main.go": 'package main\nimport "x.org/m/lib"',
    "go.mod": "module x.org/m",
    "engine/src/lib.rs": "mod part;",
}
FILES = [
    *TEXTS,
    "web/deep.ts",
    "shared/b.ts",
    "shared/tools.py",
    "lib/lib.go",
    "engine/src/part.rs",
    "README.md",
]


def readonly(owned: list[str], repo: RepoView) -> list[str]:
    return readonly_files(OwnedFiles(owned, covered(owned, repo.files), repo))


def test_direct_imports_of_all_languages() -> None:
    owned = ["web/app.ts", "api/", "cmd/**", "engine/src/lib.rs", "README.md", "new/"]
    assert readonly(owned, RepoView(FILES, TEXTS)) == [
        "engine/src/part.rs",
        "lib/lib.go",
        "shared/b.ts",
        "shared/tools.py",
        "web/a.ts",
    ]


def test_owned_files_are_omitted() -> None:
    repo = RepoView(FILES, TEXTS)
    assert readonly(["web/app.ts", "web/a.ts", "shared/"], repo) == ["web/deep.ts"]
    assert readonly(["**"], repo) == []


def test_if_there_are_too_many_the_nearest_are_kept() -> None:
    far = [f"far/away/f{number:03}.js" for number in range(READONLY_FILES_MAX)]
    near = ["a/near.js", "a/b/nearer.js"]
    text = "\n".join(f'import "../{name}"' for name in far)
    text += '\nimport "./near"\nimport "./b/nearer"'
    found = readonly(["a/main.js"], RepoView([*far, *near, "a/main.js"], {"a/main.js": text}))
    assert len(found) == READONLY_FILES_MAX
    assert set(near) <= set(found)
    assert found == sorted(found)
    assert far[-1] not in found


def test_a_file_name_that_looks_like_a_pattern_is_omitted() -> None:
    repo = RepoView(["a.js", "b*.js", "[id].js"], {"a.js": 'import "./b*"; import "./[id]"'})
    assert readonly(["a.js"], repo) == ["[id].js"]
