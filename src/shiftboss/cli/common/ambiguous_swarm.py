"""The error of a command that several swarms could be meant by."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import Final

from shiftboss.errors import ShiftbossError

CHOICES_MAX: Final = 5


class AmbiguousSwarm(ShiftbossError):
    """`swarms` are the candidates, each with a note such as the state of the task, or "". `option`
    chooses one; None if the command takes a swarm as its argument."""

    code = "ambiguous_swarm"
    title = "Several swarms could be meant"

    def __init__(
        self, what: str, swarms: Mapping[str, str], option: str | None = "--swarm"
    ) -> None:
        named = [f"{swarm} ({note})" if note else swarm for swarm, note in swarms.items()]
        choices = [f"`{with_swarm(sys.argv[1:], swarm, option)}`" for swarm in swarms]
        super().__init__(
            f"{len(swarms)} swarms have {what}: {_shortened(named)}",
            field="swarm_id",
            hint=f"say which: {' or '.join(choices[:CHOICES_MAX])}",
        )


def with_swarm(arguments: Sequence[str], swarm: str, option: str | None = "--swarm") -> str:
    """The same command for this swarm; None: it is an argument of its own, without an option. After
    a `--`, an option would be taken for an argument."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    return shlex.join(
        ["shiftboss", *arguments[:end], *filter(None, [option]), swarm, *arguments[end:]]
    )


def _shortened(names: Sequence[str]) -> str:
    more = len(names) - CHOICES_MAX
    return ", ".join(names[:CHOICES_MAX]) + (f" and {more} more" if more > 0 else "")
