"""The files that configure an agent are protected, whichever agent it is."""

from __future__ import annotations

import pytest

from shiftboss.agents.registry import AGENTS, BRANDS, brands
from shiftboss.rules.paths.ownership import is_protected

TRACES = sorted({trace for brand in brands() for trace in brand.traces})


@pytest.mark.parametrize("trace", TRACES)
def test_the_settings_of_every_agent_are_protected(trace: str) -> None:
    """A trace is a file, or a folder with settings in it."""
    assert is_protected(trace) or is_protected(f"{trace}/settings.json")


@pytest.mark.parametrize("kind", BRANDS)
def test_every_brand_names_its_settings(kind: str) -> None:
    assert AGENTS[kind].traces
