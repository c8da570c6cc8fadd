"""The systems that are compared, and what each makes durable."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

Service = Literal[
    "sqlite", "redis", "postgres", "nats", "shiftboss", "shiftboss-postgres", "shiftboss-two"
]

# As many as there are workers at most.
PRODUCERS: Final = 8


class System(NamedTuple):
    name: str  # as in --systems
    title: str
    adapter: str
    service: Service
    durability: str
    # Whether everything that was confirmed survives a power cut.
    is_durable: bool = True
    package: str = ""
    # Its own command starts the worker processes.
    has_pool: bool = False

    @property
    def is_ours(self) -> bool:
        return self.service.startswith("shiftboss")


_OURS: Final = "every commit synced; leases, retries, events and history kept"
_REDIS: Final = "append-only file synced after every write"

SYSTEMS: Final = (
    System("sqlite-sdk", "Shiftboss, SQLite, SDK", "shiftboss_sdk", "shiftboss", _OURS),
    System(
        "sqlite-sdk-many",
        "Shiftboss, SQLite, SDK, all at once",
        "shiftboss_sdk_many",
        "shiftboss",
        _OURS,
    ),
    System("sqlite-http", "Shiftboss, SQLite, HTTP", "shiftboss_http", "shiftboss", _OURS),
    System("sqlite-mcp", "Shiftboss, SQLite, MCP", "shiftboss_mcp", "shiftboss", _OURS),
    System(
        "postgres-sdk",
        "Shiftboss, PostgreSQL, SDK",
        "shiftboss_sdk",
        "shiftboss-postgres",
        _OURS,
    ),
    System(
        "postgres-http",
        "Shiftboss, PostgreSQL, HTTP",
        "shiftboss_http",
        "shiftboss-postgres",
        _OURS,
    ),
    System(
        "postgres-mcp",
        "Shiftboss, PostgreSQL, MCP",
        "shiftboss_mcp",
        "shiftboss-postgres",
        _OURS,
    ),
    System(
        "postgres-two-sdk",
        "Shiftboss, PostgreSQL, two servers, SDK",
        "shiftboss_sdk",
        "shiftboss-two",
        _OURS,
    ),
    System(
        "postgres-two-http",
        "Shiftboss, PostgreSQL, two servers, HTTP",
        "shiftboss_http",
        "shiftboss-two",
        _OURS,
    ),
    System(
        "huey",
        "Huey, SQLite",
        "huey_sqlite",
        "sqlite",
        "every commit synced (`fsync=True`); a job leaves the queue when it is taken: one whose"
        " worker dies is lost",
        package="huey",
        has_pool=True,
    ),
    System(
        "dramatiq",
        "Dramatiq, Redis",
        "dramatiq_redis",
        "redis",
        f"{_REDIS}; a finished job is deleted",
        package="dramatiq",
        has_pool=True,
    ),
    System(
        "rq",
        "RQ, Redis",
        "rq_redis",
        "redis",
        f"{_REDIS}; a finished job is kept for 500 s",
        package="rq",
    ),
    System(
        "celery",
        "Celery, Redis",
        "celery_redis",
        "redis",
        f"{_REDIS}; `acks_late`; a finished job is deleted",
        package="celery",
        has_pool=True,
    ),
    System(
        "procrastinate",
        "Procrastinate, PostgreSQL",
        "procrastinate_postgres",
        "postgres",
        "every commit synced; finished jobs and their events kept",
        package="procrastinate",
    ),
    System(
        "dbos",
        "DBOS, PostgreSQL",
        "dbos_postgres",
        "postgres",
        "every commit synced; workflows with input and output kept",
        package="dbos",
    ),
    System(
        "skip-locked",
        "bare SKIP LOCKED + NOTIFY, PostgreSQL",
        "skip_locked",
        "postgres",
        "every commit synced; a finished job keeps its row, and nothing else is kept",
        package="psycopg",
    ),
    System(
        "nats",
        "NATS JetStream, file store",
        "nats_jetstream",
        "nats",
        "written before it is confirmed, synced every two minutes; a finished job is deleted",
        is_durable=False,
        package="nats-py",
    ),
)


def chosen(names: str) -> list[System]:
    """Raises ValueError for a name that no system has."""
    by_name = {system.name: system for system in SYSTEMS}
    unknown = [name for name in names.split(",") if name not in by_name]
    if unknown:
        raise ValueError(f"unknown: {', '.join(unknown)}; there are {', '.join(by_name)}")
    return [by_name[name] for name in names.split(",")]
