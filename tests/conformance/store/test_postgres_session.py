"""Row locks, commits and rollbacks on a plain PostgreSQL session."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from shiftboss.store.postgres.hung_database import BoundedConnection
from shiftboss.store.postgres.session import PostgresSession
from shiftboss.store.transaction import SqlTransaction
from tests.conformance.store.rows import SWARM, TASK, assignment, swarm


@pytest.fixture
def session(postgres_url: str) -> Iterator[PostgresSession]:
    with BoundedConnection.connect(postgres_url, autocommit=True) as connection:
        session = PostgresSession(connection, "this-node", "this-channel")
        session.begin()
        SqlTransaction(session).add_swarm(swarm())
        session.commit()
        session.begin()
        yield session
        session.rollback()


def is_held(url: str) -> bool:
    """Whether the row of the swarm is locked."""
    with psycopg.connect(url) as connection:
        free = connection.execute(
            "SELECT 1 FROM swarms WHERE swarm_id = %s FOR UPDATE SKIP LOCKED", [SWARM]
        )
        return free.fetchone() is None


@pytest.mark.parametrize("taking", ["take_swarm", "take_assignment", "take_reported"])
def test_a_taken_swarm_is_locked_until_the_commit(
    session: PostgresSession, postgres_url: str, taking: str
) -> None:
    further = {"take_swarm": (), "take_assignment": (TASK,), "take_reported": (TASK, b"key")}
    getattr(SqlTransaction(session), taking)(SWARM, *further[taking])
    assert is_held(postgres_url)
    session.commit()
    assert not is_held(postgres_url)


def test_a_swarm_is_locked_again_after_a_savepoint_rollback_released_it(
    session: PostgresSession, postgres_url: str
) -> None:
    session.savepoint()
    SqlTransaction(session).take_swarm(SWARM)
    session.rollback_to_savepoint()
    assert not is_held(postgres_url)
    session.savepoint()
    SqlTransaction(session).take_swarm(SWARM)
    assert is_held(postgres_url)


def test_a_swarm_stays_locked_across_the_savepoint_of_the_next_use_case(
    session: PostgresSession, postgres_url: str
) -> None:
    session.savepoint()
    SqlTransaction(session).take_swarm(SWARM)
    session.savepoint()
    session.rollback_to_savepoint()
    assert is_held(postgres_url)


def test_committing_a_failed_transaction_is_an_error(session: PostgresSession) -> None:
    SqlTransaction(session).put_assignment(assignment(steps_total=0))
    with pytest.raises(psycopg.errors.CheckViolation):
        SqlTransaction(session).task(SWARM, TASK)
    with pytest.raises(psycopg.errors.InFailedSqlTransaction):
        session.commit()
    assert not session.commit_in_doubt
    session.begin()
    assert SqlTransaction(session).assignments(SWARM) == []


def test_a_rollback_is_always_allowed(session: PostgresSession) -> None:
    session.rollback()
    session.rollback()
    session._connection.close()
    session.rollback()
