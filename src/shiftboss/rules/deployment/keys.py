"""When a retired key has signed."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

# A receipt that was being signed when its key was retired; clocks of servers differ a little.
RETIREMENT_GRACE: Final = timedelta(minutes=1)


def is_signed_after(accepted_at: str, retired_at: str) -> bool:
    """Whether a receipt says that it was accepted when its key was retired already."""
    accepted, retired = map(datetime.fromisoformat, (accepted_at, retired_at))
    return accepted > retired + RETIREMENT_GRACE
