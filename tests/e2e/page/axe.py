"""axe-core, which finds what keeps people with screen readers, keyboards or weak eyes out."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

from playwright.sync_api import Page


@cache
def _source() -> str:
    return (files("axe_playwright_python") / "axe.min.js").read_text()


def violations(page: Page, *, only: tuple[str, ...] = ()) -> list[str]:
    """Those that are serious or critical, one line each. `only`: the rules to try; none: all."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(_source())
    options: dict[str, Any] = {"resultTypes": ["violations"]}
    if only:
        options["runOnly"] = {"type": "rule", "values": list(only)}
    found: list[dict[str, Any]] = page.evaluate(
        "(options) => axe.run(options).then((result) => result.violations)", options
    )
    return [
        f"{each['id']} ({each['impact']}): {node['html'][:200]} {node['failureSummary']}"
        for each in found
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"]
    ]
