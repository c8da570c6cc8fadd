"""The diagrams and the tree of the architecture page agree with the code."""

from __future__ import annotations

import re
import tomllib
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from shiftboss.rules.tasks.lifecycle import TRANSITIONS

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "src" / "shiftboss"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


class Arrow(NamedTuple):
    source: str
    target: str


def blocks(language: str) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    return [text for marked, text in found if marked == language]


def diagram(kind: str) -> str:
    """The only Mermaid diagram of this kind, such as `flowchart`."""
    (found,) = [block for block in blocks("mermaid") if block.startswith(kind)]
    return found


def arrows(text: str) -> list[Arrow]:
    """`a --> b --> c` has two arrows, `a & b --> c` has two as well."""
    result = []
    for line in text.splitlines():
        stops = [_names(part) for part in line.split("-->")]
        for sources, targets in pairwise(stops):
            result += [Arrow(source, target) for source in sources for target in targets]
    return result


def _names(part: str) -> list[str]:
    """Node names without their labels: `store["store: one port"]` is `store`."""
    return [re.split(r"[\[({\s]", node.strip(), maxsplit=1)[0] or "[*]" for node in part.split("&")]


def test_the_state_diagram_has_exactly_the_edges_of_the_state_machine() -> None:
    drawn = [arrow for arrow in arrows(diagram("stateDiagram")) if "[*]" not in arrow]
    edges = [Arrow(state.name, after.name) for state in TRANSITIONS for after in TRANSITIONS[state]]
    assert sorted(drawn) == sorted(edges)


def packages(folder: Path) -> set[str]:
    return {found.parent.name for found in folder.glob("*/__init__.py")}


def listed_packages() -> dict[str, set[str]]:
    """Each package of the tree with the packages that are listed below it.

    The tree is a text block that begins with `src/shiftboss/`. The first indented line sets the
    indentation of the packages; a deeper line is part of the package above it.
    """
    (tree,) = [block for block in blocks("text") if block.startswith("src/shiftboss/\n")]
    lines = re.findall(r"^( +)(\w+)/(?:\s|$)", tree, re.MULTILINE)
    outer = lines[0][0]
    listed: dict[str, set[str]] = {}
    above = ""
    for indentation, name in lines:
        if indentation == outer:
            above = name
            assert above not in listed, f"{above} is listed twice"
            listed[above] = set()
        else:
            listed[above].add(name)
    return listed


def test_the_tree_lists_exactly_the_packages() -> None:
    listed = listed_packages()
    assert set(listed) == packages(PACKAGE)
    for name, inner in listed.items():
        assert not inner or inner == packages(PACKAGE / name), name


def layers() -> list[set[str]]:
    """The layers of the import contract, the highest first, by the names of their packages.

    `cli` has several layers, because `demo` lies between them; it counts as the highest.
    """
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    (contract,) = [contract for contract in contracts if contract["type"] == "layers"]
    listed: list[set[str]] = []
    for layer in contract["layers"]:
        names = {name.strip().split(".")[1] for name in layer.split("|")}
        listed.append(names - set().union(*listed))
    return [names for names in listed if names]


def test_the_import_diagram_agrees_with_the_layers() -> None:
    drawn = arrows(diagram("flowchart"))
    rank = {name: number for number, layer in enumerate(layers()) for name in layer}
    assert [arrow for arrow in drawn if rank[arrow.source] >= rank[arrow.target]] == []
    # Every package of the contract is drawn, and has an arrow.
    top, bottom = layers()[0], layers()[-1]
    assert {arrow.source for arrow in drawn} == set(rank) - bottom
    assert {arrow.target for arrow in drawn} == set(rank) - top


def test_every_arrow_of_the_import_diagram_is_an_import() -> None:
    """`cli.main` names the modules of commands and imports them when they are used."""
    for source, target in arrows(diagram("flowchart")):
        texts = [path.read_text(encoding="utf-8") for path in (PACKAGE / source).rglob("*.py")]
        imports = (f"from shiftboss.{target}", f': "{target}.')
        assert any(line in text for text in texts for line in imports), (source, target)


def test_the_import_diagram_names_only_what_exists() -> None:
    names = {name for arrow in arrows(diagram("flowchart")) for name in arrow}
    modules = {found.stem for found in PACKAGE.glob("*.py")}
    assert names <= packages(PACKAGE) | modules
