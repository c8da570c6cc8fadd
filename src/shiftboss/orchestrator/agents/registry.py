"""The agents that there are: every module of this folder that has an `AGENT`."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Final

from shiftboss.orchestrator import agents
from shiftboss.orchestrator.agents.agent import Agent


def _found() -> dict[str, Agent]:
    modules = (
        import_module(f"{agents.__name__}.{module.name}")
        for module in pkgutil.iter_modules(agents.__path__)
        if module.name != "known"
    )
    known: list[Agent] = [module.AGENT for module in modules if hasattr(module, "AGENT")]
    return {agent.kind: agent for agent in sorted(known, key=lambda agent: agent.kind)}


AGENTS: Final[Mapping[str, Agent]] = MappingProxyType(_found())
