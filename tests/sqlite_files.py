"""SQLite files with the schema in them, like the template database of PostgreSQL.

A copy takes a tenth of the time of all migrations. That a new file gets them is tested with the
store and with the command `serve`.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from functools import cache
from pathlib import Path

from shiftboss.store.open_store import store_at
from tests.fork_server_process import prepare_little_log


def make_sqlite_file(path: Path) -> None:
    """An empty database with the schema of today."""
    shutil.copy(_template(), path)


@cache
def _template() -> Path:
    prepare_little_log()
    path = Path(tempfile.mkdtemp(prefix="shiftboss-sqlite-")) / "template.db"

    async def migrate() -> None:
        store = store_at(str(path))
        await store.open(lambda _events: None, lambda: None)
        await store.close()

    asyncio.run(migrate())
    return path
