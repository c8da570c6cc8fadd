"""The coding agents that Shiftboss knows. A new brand is one line in `BRANDS`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from shiftboss.defaults import DEFAULT_AGENT

if TYPE_CHECKING:
    from shiftboss.agents.agent import Agent, Hook

# The module of each brand, in the order in which people see them. A module is imported when it is
# first used: a hook needs one of them.
BRANDS: Final[dict[str, str]] = {
    "claude": "shiftboss.agents.claude",
    "codex": "shiftboss.agents.codex",
    "opencode": "shiftboss.agents.opencode",
    "gemini": "shiftboss.agents.gemini",
}
# Any other program.
_COMMAND: Final = {"command": "shiftboss.agents.command"}


class _Agents(Mapping[str, "Agent"]):
    """All agents by their kind, as plans name them."""

    def __getitem__(self, kind: str) -> Agent:
        # Without `importlib`, which takes a hook longer to load than the brand.
        module = __import__((BRANDS | _COMMAND)[kind], fromlist=("AGENT",))
        agent: Agent = module.AGENT
        return agent

    def __iter__(self) -> Iterator[str]:
        return iter(BRANDS | _COMMAND)

    def __len__(self) -> int:
        return len(BRANDS | _COMMAND)


AGENTS: Final[Mapping[str, Agent]] = _Agents()


def brands() -> list[Agent]:
    return [AGENTS[kind] for kind in BRANDS]


def hook_of(kind: str) -> Hook | None:
    """The hook of this kind. Only the brand that it belongs to is imported."""
    name = kind.partition("-")[0]
    return AGENTS[name if name in BRANDS else DEFAULT_AGENT].hooks.get(kind)


def hook_kinds() -> list[str]:
    return [kind for agent in brands() for kind in agent.hooks]
