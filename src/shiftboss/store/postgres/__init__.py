"""The PostgreSQL store: several servers on one database."""

from __future__ import annotations

from importlib.util import find_spec

from shiftboss.errors import StoreUnavailable

if find_spec("psycopg") is None or find_spec("psycopg_pool") is None:
    raise StoreUnavailable(
        "PostgreSQL needs psycopg, which is not installed",
        hint="pip install 'shiftboss[postgres]'",
    )
