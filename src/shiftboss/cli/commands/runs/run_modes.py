"""Which options of `shiftboss run` go together."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import typer

from shiftboss.errors import InvalidRequest

# Each of them does something else than running the plan here.
_MODES: Final = ("dry_run", "detach", "attach", "stop")
# They only look for a run that is there: these options find it, and say how it is shown.
_LOOKING: Final = ("attach", "stop")
_FINDING: Final = ("plan_file", "db", "as_json")
_FLAGS: Final = {"auto_merge": "--auto-merge/--no-auto-merge", "wait": "--wait/--no-wait"}


def given_options(context: typer.Context) -> list[str]:
    """The parameters that the command line sets; those from the environment do not count."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return [name for name, source in sources.items() if source and source.name == "COMMANDLINE"]


def refuse_contradictions(given: Collection[str]) -> None:
    """Raises InvalidRequest if an option would have no effect."""
    modes = [name for name in _MODES if name in given]
    if len(modes) > 1:
        names = " and ".join(map(_option, modes))
        raise InvalidRequest(f"{names} do not go together", field=modes[1], hint="choose one")
    ignored = [name for name in given if name not in (*_FINDING, *modes)]
    if modes and modes[0] in _LOOKING and ignored:
        raise InvalidRequest(
            f"{_option(modes[0])} is about a run that was started before: "
            f"{', '.join(map(_option, ignored))} would have no effect",
            field=ignored[0],
            hint=f"leave it out, or start a run without {_option(modes[0])}",
        )
    if "server" in given and "own_server" in given:
        raise InvalidRequest(
            "--server and --own-server do not go together", field="server", hint="choose one"
        )


def _option(parameter: str) -> str:
    return _FLAGS.get(parameter) or f"--{parameter.replace('_', '-')}"
