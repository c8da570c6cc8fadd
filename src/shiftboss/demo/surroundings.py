"""The environment of the demo's processes."""

from __future__ import annotations

import os


def clean_environment() -> dict[str, str]:
    """Ours, without what would lead to other servers, repositories or settings."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("SHIFTBOSS_", "GIT_"))
    }
    return kept | {
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        # A courier would outlive the demo if its server never came back.
        "SHIFTBOSS_COURIER": "0",
    }
