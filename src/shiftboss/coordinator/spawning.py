"""Who may spawn, and what a contract may ask for: the operator's choice when the server starts."""

from __future__ import annotations

from typing import NamedTuple

from shiftboss.errors import Forbidden


class Spawning(NamedTuple):
    """Whoever spawns chooses commands that run with the rights of the verifier. `variables` are
    those of its environment that a contract may show to them."""

    open_to_all: bool = True
    variables: frozenset[str] = frozenset()

    def check_open(self) -> None:
        if not self.open_to_all:
            raise Forbidden(
                "only the operator may spawn here; nothing was changed",
                hint="the operator spawns with `shiftboss handoff spawn`, or opens it to all with "
                "`shiftboss serve --spawning everybody`",
            )
