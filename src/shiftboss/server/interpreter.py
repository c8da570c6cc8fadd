"""What a server sets in its interpreter when it starts, and what it leaves for afterwards."""

from __future__ import annotations

import asyncio
import gc
import sys
from typing import Final

from shiftboss.protocol.fields import unbuilt_types

# The writer thread releases the interpreter at every statement. Switching threads more often than
# that costs a tenth of the reports per second.
SWITCH_SECONDS: Final = 0.05
# Until the nearest core is found, and the first requests are answered.
_FIRST_PAUSE_SECONDS: Final = 0.2
_PAUSE_SECONDS: Final = 0.002


def tune_interpreter() -> None:
    """Collect garbage rarely: requests create no reference cycles, and imported modules are never
    freed. What little garbage the start has made is not looked for: that takes as long as a tenth
    of the start."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    sys.setswitchinterval(SWITCH_SECONDS)


async def build_types() -> None:
    """Build the types that no request has needed yet, so that none has to wait for it. Each takes
    a millisecond or two, and requests come in between. On the loop, because a thread would hold the
    interpreter as long."""
    await asyncio.sleep(_FIRST_PAUSE_SECONDS)
    for form in unbuilt_types():
        form.model_rebuild()
        await asyncio.sleep(_PAUSE_SECONDS)
