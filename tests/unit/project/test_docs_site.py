"""The documentation as a site: complete, without dead links, and without other hosts."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config
from tools.docs_site.generated import state_machines_page
from tools.docs_site.links import as_in_site, targets

from shiftboss.rules.contract import milestones
from shiftboss.rules.tasks.lifecycle import TRANSITIONS

ROOT = Path(__file__).parents[3]
_LOADED = re.compile(r"<(?:script|img|link)\b[^>]*?\b(?:src|href)=\"([^\"]+)\"")
_SHOWN = re.compile(r"<(?:script|img|source)\b[^>]*?\s(?:src|srcset)=\"([^\"]+)\"")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built strictly: a page that is left out and a link without its target are errors."""
    folder = tmp_path_factory.mktemp("docs") / "site"
    config = load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder), strict=True)
    config.plugins.on_startup(command="build", dirty=False)
    build(config)
    return folder


@pytest.mark.filterwarnings("default::DeprecationWarning")
def test_the_site_loads_nothing_from_another_host(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert {"index.html", "reference.html", "commands.html", "threat-model.html"} <= {
        page.name for page in pages
    }
    for page in pages:
        loaded = _LOADED.findall(page.read_text(encoding="utf-8"))
        assert loaded, page
        for address in loaded:
            assert not urlsplit(address).netloc, (page, address)


@pytest.mark.filterwarnings("default::DeprecationWarning")
def test_every_picture_and_script_of_the_site_is_there(site: Path) -> None:
    start = _SHOWN.findall((site / "index.html").read_text(encoding="utf-8"))
    assert {"pictures/board-dark.png", "pictures/board-light.png"} <= set(start)
    shown = [
        (page.relative_to(site), address, page.parent / unquote(urlsplit(address).path))
        for page in site.rglob("*.html")
        if page.name != "404.html"  # whose addresses begin at the root of the host
        for address in _SHOWN.findall(page.read_text(encoding="utf-8"))
    ]
    assert [(page, address) for page, address, file in shown if not file.is_file()] == []


def test_links_of_the_repository_are_links_of_the_site() -> None:
    text = "[a](docs/how-to.md#x) [b](bench/README.md) ![c](docs/c.svg) [d](examples/d.py) [e](#f)"
    assert as_in_site(text, "README.md") == (
        "[a](how-to.md#x) [b](benchmarks.md) ![c](c.svg) [d](files/examples/d.py) [e](#f)"
    )
    assert as_in_site("[s](../../SECURITY.md)", "docs/explanation/a.md") == "[s](../security.md)"
    picture = '<source media="(x)" srcset="{0}d.png"><img src="{0}l.png" alt="L">'
    assert as_in_site(picture.format("docs/p/"), "README.md") == picture.format("p/")
    assert as_in_site("```\n[a](x.md)\n```", "docs/a.md") == "```\n[a](x.md)\n```"
    assert as_in_site("[a](https://example.org/x)", "README.md") == "[a](https://example.org/x)"
    assert targets("[a](../b.py) [c](d.md)", "docs/x.md") == {"b.py", "docs/d.md"}


def test_the_state_machines_have_every_edge() -> None:
    drawn = re.findall(r"^    (\S+) --> (\S+)$", state_machines_page(), re.MULTILINE)
    edges = [(state.name, after.name) for state in TRANSITIONS for after in TRANSITIONS[state]]
    edges += [(each, after) for each, found in milestones.TRANSITIONS.items() for after in found]
    assert sorted(edge for edge in drawn if edge[0] != "[*]") == sorted(edges)
