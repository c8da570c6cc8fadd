"""Which repository is meant: a folder, or a repo of the server's policy by its name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from shiftboss.cli.bus_calls import ask
from shiftboss.cli.client import parsed
from shiftboss.cli.options import DEFAULT_SWARM

# What can be a name in a policy; `./alphavm` is the folder and nothing else.
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def named_repo(
    given: str | None, server: str, token_file: Path | None, *, as_json: bool
) -> str | None:
    """The name as it is, a folder in full. None, which means the server's own, when there is no
    repository around here."""
    if given is None:
        here = Path.cwd()
        return next((str(one) for one in (here, *here.parents) if (one / ".git").exists()), None)
    if _NAME.fullmatch(given) and given in _in_policy(server, token_file, as_json=as_json):
        return given
    return str(Path(given).resolve())


def _in_policy(server: str, token_file: Path | None, *, as_json: bool) -> set[str]:
    answer = ask(server, token_file, "list_repos", DEFAULT_SWARM, as_json=as_json)
    return {one["repo"] for one in parsed(answer, "repos")["repos"]}
