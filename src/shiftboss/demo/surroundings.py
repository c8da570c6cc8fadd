"""What the demo and its processes see of the world around them."""

from __future__ import annotations

import os
from pathlib import Path


def clean_environment() -> dict[str, str]:
    """Ours, without what would lead to other servers, repositories or settings."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("SHIFTBOSS_", "GIT_"))
    }
    return kept | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}


def stay_apart(folder: Path) -> None:
    """For the whole process: the run of the plan looks at the environment, and so do its agents.
    What would be kept in the home is kept in the folder."""
    wanted = clean_environment()
    for name in os.environ.keys() - wanted.keys():
        del os.environ[name]
    os.environ.update(wanted | {"XDG_CACHE_HOME": str(folder / "cache")})
