"""Having a forge make a run anew."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from shiftboss.evidence.ci.access import Access
from shiftboss.evidence.ci.http import ForgeHttp
from shiftboss.evidence.ci.rows import Row
from shiftboss.evidence.ci.states import OPEN

# Forges make no run anew that is under way, and take a moment to cancel one.
CANCEL_LOOKS: Final = 10
CANCEL_PAUSE_SECONDS: Final = 2.0

DONE: Final = range(200, 300)

Find = Callable[[], Awaitable[Row | None]]


async def rerun(http: ForgeHttp, access: Access, find: Find, pause_seconds: float) -> bool:
    """A run that is under way is cancelled first. False: there is no such run, the token may not
    do it, or the forge does not know how. `find` tells of the run as it is now."""
    row = await find()
    if row is None:
        return False
    path = f"/actions/runs/{row.id}"
    if row.state in OPEN:
        if await http.post(access, f"{path}/cancel") not in DONE:
            return False
        await _until_over(find, pause_seconds)
    return await http.post(access, f"{path}/rerun") in DONE


async def knows_reruns(http: ForgeHttp, access: Access, row: Row) -> bool | None:
    """Of a run that is under way; None: it was made anew all the same."""
    status = await http.post(access, f"/actions/runs/{row.id}/rerun")
    return None if status in DONE else status not in (403, 404, 405)


async def _until_over(find: Find, pause_seconds: float) -> None:
    """Or until it has had time enough: then the forge says itself whether it can be made anew."""
    for _ in range(CANCEL_LOOKS):
        row = await find()
        if row is None or row.state not in OPEN:
            return
        await asyncio.sleep(pause_seconds)
