"""What mkdocs calls while it builds the site."""

from __future__ import annotations

import logging
import posixpath
import re
from pathlib import Path
from typing import Any, Final

import pymdownx.superfences
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from tools.docs_site.generated import GENERATED
from tools.docs_site.links import PAGES, as_in_site, repo_path_of, site_path, targets
from tools.docs_site.npm_scripts import MERMAID, SCRIPTS, WORKER_SHIM

ROOT: Final = Path(__file__).parents[2]
# What the theme would load the shim from.
_SHIM_TAG: Final = re.compile(r'<script src="https://[^"]*/iframe-worker/shim"></script>')

log = logging.getLogger("mkdocs.shiftboss")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    if MERMAID.content() is None:
        log.info("npm or its registry cannot be reached: diagrams are shown as text")
        return config
    config.extra_javascript.append(MERMAID.path)
    config.mdx_configs["pymdownx.superfences"] = {
        "custom_fences": [
            {
                "name": "mermaid",
                "class": "mermaid",
                "format": pymdownx.superfences.fence_code_format,
            }
        ]
    }
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for repo_path, page in PAGES.items():
        files.append(File.generated(config, page, content=_read(repo_path)))
    for page, write in GENERATED.items():
        files.append(File.generated(config, page, content=write()))
    for script in SCRIPTS:
        content = script.content()
        if content is not None:
            files.append(File.generated(config, script.path, content=content))
    for repo_path in sorted(_linked_files(files)):
        content = (ROOT / repo_path).read_bytes()
        files.append(File.generated(config, site_path(repo_path), content=content))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    if page.file.src_uri in GENERATED:
        return markdown
    return as_in_site(markdown, repo_path_of(page.file.src_uri))


def on_post_page(output: str, page: Page, **_: Any) -> str:
    return _with_own_shim(output, posixpath.dirname(page.file.dest_uri))


def on_post_template(output_content: str, template_name: str, **_: Any) -> str:
    return _with_own_shim(output_content, posixpath.dirname(template_name))


def _with_own_shim(html: str, folder: str) -> str:
    path = posixpath.relpath(WORKER_SHIM.path, folder or ".")
    tag = "" if WORKER_SHIM.content() is None else f'<script src="{path}"></script>'
    return _SHIM_TAG.sub(tag, html)


def _linked_files(files: Files) -> set[str]:
    """Files outside of docs/ that a page links to, and that are no pages themselves."""
    linked: set[str] = set()
    for page in files.documentation_pages():
        if page.src_uri not in GENERATED:
            repo_path = repo_path_of(page.src_uri)
            linked |= targets(_read(repo_path), repo_path)
    is_page = PAGES.keys()
    return {
        each
        for each in linked
        if not each.startswith("docs/") and each not in is_page and (ROOT / each).is_file()
    }


def _read(repo_path: str) -> str:
    return (ROOT / repo_path).read_text(encoding="utf-8")
