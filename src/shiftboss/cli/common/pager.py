"""The user's pager, chosen as git would, but never from the settings of a repository: agents can
write those, and a pager is a command."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from typing import Final

_DEFAULT: Final = "less"
_NONE: Final = ("", "cat")
_OFF: Final = ("false", "no", "off", "0")
_ON: Final = ("true", "yes", "on", "1")
# Git's own settings for pagers: less ends at once if everything fits, and shows colours.
_VARIABLES: Final = {"LESS": "FRX", "LV": "-c"}


def choose_pager(environment: Mapping[str, str], settings: Mapping[str, str]) -> str | None:
    """The command of the pager; None: there is none. `settings` are `core.pager` and `pager.diff`
    of the user."""
    own = settings.get("pager.diff")
    if own is not None and own.lower() in _OFF:
        return None
    choices = (
        environment.get("GIT_PAGER"),
        None if own is None or own.lower() in _ON else own,
        settings.get("core.pager"),
        environment.get("PAGER"),
        _DEFAULT if shutil.which(_DEFAULT) else "",
    )
    pager = next(choice for choice in choices if choice is not None)
    return None if pager.strip() in _NONE else pager


def users_git_settings() -> dict[str, str]:
    """The user's own settings come after those of the machine, and so replace them."""
    settings: dict[str, str] = {}
    for place in ("--system", "--global"):
        listed = subprocess.run(
            [
                *("git", "config", place, "--includes", "--null"),
                *("--get-regexp", r"^(core\.pager|pager\.diff)$"),
            ],
            cwd="/",  # outside of the repository
            capture_output=True,
            check=False,
        )
        for entry in listed.stdout.decode(errors="replace").split("\0"):
            name, has_value, value = entry.partition("\n")
            if name:
                settings[name] = value if has_value else "true"
    return settings


def page(lines: Iterable[str], pager: str | None) -> bool:
    """Print the lines. Returns whether all of them were read: people leave a pager early."""
    if pager is None:
        for line in lines:
            print(line, flush=True)
        return True
    # Like git, and every program with a $PAGER: the setting is a shell command.
    process = subprocess.Popen(
        ["/bin/sh", "-c", pager],
        stdin=subprocess.PIPE,
        env={**_VARIABLES, **os.environ},
        text=True,
        errors="replace",
    )
    assert process.stdin is not None
    is_complete = False
    with contextlib.suppress(BrokenPipeError, KeyboardInterrupt):
        for line in lines:
            process.stdin.write(f"{line}\n")
        process.stdin.flush()
        is_complete = True
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()
    while process.poll() is None:
        with contextlib.suppress(KeyboardInterrupt):  # it is for the pager
            process.wait()
    return is_complete
