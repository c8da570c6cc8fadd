"""Named queries from .sql files."""

from __future__ import annotations

import re
import sqlite3
from importlib.resources import files
from pathlib import Path

import pytest

from shiftboss.store.queries import (
    load_migrations,
    load_queries,
    percent_style,
    positional,
    split_queries,
)

DIALECTS = ["sqlite", "postgres"]
STORE = files("shiftboss.store")

TEXT = """-- What this file is for: nothing of it belongs to a query.
SELECT 'neither does this';

-- name: first
-- Why it is so.
SELECT a, -- not a comment line
    b FROM t
    -- indented comments go, too
WHERE a = :a;

-- name: second_2
DELETE FROM t;
"""


def test_queries_are_split_at_their_names_without_comments_and_semicolons() -> None:
    assert dict(split_queries(TEXT)) == {
        "first": "SELECT a, -- not a comment line\n    b FROM t\nWHERE a = :a",
        "second_2": "DELETE FROM t",
    }


def test_text_without_names_has_no_queries() -> None:
    assert list(split_queries("SELECT 1; -- name: not at the start of a line")) == []


@pytest.mark.parametrize(
    ("query", "styled"),
    [
        ("a = :a AND b = :b_2", "a = %(a)s AND b = %(b_2)s"),
        ("(:a,:a)", "(%(a)s,%(a)s)"),
        ("x::text = :x", "x::text = %(x)s"),
        ("a LIKE '%' || :a", "a LIKE '%%' || %(a)s"),
        ("SELECT 1", "SELECT 1"),
    ],
)
def test_parameters_are_written_as_psycopg_wants_them(query: str, styled: str) -> None:
    assert percent_style(query) == styled


@pytest.mark.parametrize(
    ("query", "text", "values"),
    [
        ("a = :a AND b = :b_2", "a = ? AND b = ?", (1, 2)),
        ("(:b_2, :a,:a)", "(?, ?,?)", (2, 1, 1)),
        ("a = :a", "a = ?", (1,)),
        ("SELECT 1", "SELECT 1", ()),
    ],
)
def test_parameters_are_put_in_order(query: str, text: str, values: tuple[int, ...]) -> None:
    placed = positional(query)
    assert placed.text == text
    assert placed.in_order({"b_2": 2, "unused": 9, "a": 1}) == values


@pytest.mark.parametrize("path", ["sql/common.sql", "sqlite/queries.sql", "postgres/queries.sql"])
def test_every_name_is_unique_in_its_file_and_has_a_query(path: str) -> None:
    found = list(split_queries(STORE.joinpath(path).read_text()))
    assert len(dict(found)) == len(found) > 0
    assert all(query for _, query in found)


def test_postgres_has_every_query_of_sqlite_and_some_of_its_own() -> None:
    sqlite, postgres = map(set, map(load_queries, DIALECTS))
    assert sqlite <= postgres
    several_servers = {"hold_swarm", "announce", "newest_events", "database_clock"}
    leadership = {"take_lead", "lead_left_ms", "renew_lead", "release_lead"}
    fewer_round_trips = {"last_queue_number", "put_queue_number", "task_of_worker"}
    settings = {"limit_lock_wait"}
    assert postgres - sqlite == several_servers | leadership | fewer_round_trips | settings


def test_every_query_is_used_by_the_code() -> None:
    code = "".join(part.read_text() for part in Path(str(STORE)).rglob("*.py"))
    assert set(load_queries("postgres")) <= set(re.findall(r'"(\w+)"', code))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_migrations_are_numbered_from_one_without_gaps(dialect: str) -> None:
    migrations = load_migrations(dialect)
    assert [number for number, _ in migrations] == list(range(1, len(migrations) + 1))
    assert all("CREATE TABLE" in text for number, text in migrations if number == 1)


def test_no_query_scans_a_whole_table() -> None:
    """The cost of a request does not grow with history: every step is a search by an index."""
    connection = sqlite3.connect(":memory:")
    for _, text in load_migrations("sqlite"):
        connection.executescript(text)
    for name, query in load_queries("sqlite").items():
        values = dict.fromkeys(re.findall(r":(\w+)", query), 0)
        plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {query}", values)]
        steps = [step for step in plan if step.startswith(("SCAN", "SEARCH"))]
        scanned = [step for step in steps if step in WHOLE_TABLES]
        assert not scanned or name in READ_BY_FSCK, (name, plan)
        # A limit is computed before the search that uses it.
        first = STARTS_WITH.get(name)
        searched = [step for step in steps if "holds USING" not in step]
        assert first is None or searched[0].startswith(first), (name, plan)
        is_paged = "LIMIT" in query and not any("TEMP B-TREE" in step for step in plan)
        if not (name.startswith("all_") or is_paged or name in HIGHEST_NUMBER):
            assert not WHOLE_SWARMS & set(steps), (name, plan)
    connection.close()


# `shiftboss fsck` reads everything. No request uses these.
READ_BY_FSCK = {"swarm_ids_of_events"}
WHOLE_TABLES = {
    f"SCAN {table}"
    for table in (
        *("swarms", "assignments", "events", "retries", "tasks", "workers", "questions"),
        *("process_usage", "usage_totals", "holds", "landings"),
    )
}
# All that there is of a swarm, to find what is open.
WHOLE_SWARMS = {
    f"SEARCH {table} USING PRIMARY KEY (swarm_id=?)"
    for table in (
        *("tasks", "t", "questions", "q", "claims", "c", "reviews", "r", "landings", "l"),
        *("scope_requests", "asked", "o", "tokens"),
    )
}
# The highest number of a swarm is the last entry of its primary key.
HIGHEST_NUMBER = {"add_scope_request"}
# A search by the swarm alone would read the whole history of the swarm.
STARTS_WITH = {
    "dependents": "SEARCH d USING COVERING INDEX task_dependents (swarm_id=? AND depends_on=?",
    "undelivered_answers": "SEARCH questions USING PRIMARY KEY "
    "(swarm_id=? AND task_id=? AND epoch=?",
    "next_task": "SEARCH tasks USING INDEX tasks_ready",
    "next_worker": "SEARCH workers USING INDEX workers_free",
    "open_questions": "SEARCH questions USING INDEX questions_open",
    "expired_leases": "SEARCH assignments USING INDEX assignments_by_lease",
    "assignments": "SEARCH assignments USING INDEX assignments_of_packets",
    "event_with_data": "SEARCH events USING INDEX events_by_report (swarm_id=? AND task_id=?",
    "due_retries": "SEARCH retries USING INDEX retries_by_due_time",
    "landings_to_come": "SEARCH landings USING INDEX landings_to_come",
    "prune_events": "SEARCH events USING PRIMARY KEY (swarm_id=? AND event_id=?",
    "tasks_with_status": "SEARCH tasks USING INDEX tasks_by_status (swarm_id=? AND status=?",
    "escalated_claims": "SEARCH c USING INDEX claims_open_of_swarm",
    "open_scope_requests": "SEARCH asked USING INDEX scope_requests_open",
    "offered_workers": "SCAN assignments USING INDEX assignments_not_received",
    "has_offers": "SEARCH assignments USING INDEX assignments_not_received",
    "delete_task_tokens": "SEARCH tokens USING COVERING INDEX tokens_of_task",
}
