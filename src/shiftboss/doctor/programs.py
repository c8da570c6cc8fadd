"""Programs of this machine, asked briefly."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Final, NamedTuple

ANSWER_SECONDS: Final = 20.0


class Said(NamedTuple):
    code: int
    out: str


async def said_by(*argv: str, folder: Path | None = None) -> Said | None:
    """What a program wrote, and its exit code. None: it is not installed, or does not end."""
    program = shutil.which(argv[0])
    if program is None:
        return None
    process = await asyncio.create_subprocess_exec(
        program,
        *argv[1:],
        cwd=folder,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            out, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        return None
    return Said(process.returncode or 0, out.decode(errors="replace"))
