"""What the commands of a contract see of the world: a scrubbed environment and an empty home."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from shiftboss.rules.claims.variables import may_be_passed

# Programs on PATH that stand in for the real ones look for those in the home folder, and would find
# nothing in an empty one.
_TOOL_FOLDERS: Final = {
    "RUSTUP_HOME": ".rustup",
    "VOLTA_HOME": ".volta",
    "ASDF_DATA_DIR": ".asdf",
    "MISE_DATA_DIR": ".local/share/mise",
}


def checkout_environment(names: Sequence[str], home: Path) -> dict[str, str]:
    """The variables for a command, and the two folders that they name.

    Of the server's variables only PATH and those in `names`. Relative and empty entries of PATH go:
    they would mean the checkout, where a worker can put a `python` of its own.
    """
    temporary = home / "tmp"
    temporary.mkdir(mode=0o700, parents=True, exist_ok=True)
    passed = {
        name: os.environ[name] for name in names if may_be_passed(name) and name in os.environ
    }
    fixed = {
        "PATH": _absolute_entries(os.environ.get("PATH", os.defpath)),
        "HOME": str(home),
        "TMPDIR": str(temporary),
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "CI": "1",
        "NO_COLOR": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONNOUSERSITE": "1",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
    }
    return passed | _tool_folders() | fixed


def _tool_folders() -> dict[str, str]:
    home = Path.home()
    folders = {
        name: Path(os.environ.get(name) or home / usual) for name, usual in _TOOL_FOLDERS.items()
    }
    return {name: str(folder) for name, folder in folders.items() if folder.is_dir()}


def _absolute_entries(path: str) -> str:
    return os.pathsep.join(entry for entry in path.split(os.pathsep) if entry.startswith("/"))
