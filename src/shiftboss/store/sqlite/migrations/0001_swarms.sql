-- Times are whole milliseconds since 1970 in UTC. State rules are repeated here as constraints, so
-- that a mistake in the code is refused by the database.

CREATE TABLE swarms (
    swarm_id TEXT NOT NULL PRIMARY KEY,
    feature TEXT NOT NULL,
    manifest_path TEXT NOT NULL,
    auto_merge INTEGER NOT NULL CHECK (auto_merge IN (0, 1)),
    notify_on_complete INTEGER NOT NULL CHECK (notify_on_complete IN (0, 1)),
    workers_expected INTEGER CHECK (workers_expected >= 1),
    created_at_ms INTEGER NOT NULL,
    completed_at_ms INTEGER
) STRICT, WITHOUT ROWID;

CREATE INDEX swarms_by_age ON swarms (created_at_ms, swarm_id);
CREATE INDEX swarms_by_completion ON swarms (completed_at_ms) WHERE completed_at_ms IS NOT NULL;

-- The current attempt at each task; former attempts are in the events.
CREATE TABLE assignments (
    swarm_id TEXT NOT NULL REFERENCES swarms (swarm_id) ON DELETE CASCADE,
    task_id TEXT NOT NULL,
    epoch INTEGER NOT NULL CHECK (epoch >= 1),
    state TEXT NOT NULL CHECK (state IN (
        'assigned', 'executing', 'verifying', 'self_review', 'complete', 'failed', 'blocked',
        'waiting')),
    packet_id INTEGER CHECK (packet_id > 0),
    worker TEXT NOT NULL,
    worktree TEXT NOT NULL,
    steps_total INTEGER NOT NULL CHECK (steps_total BETWEEN 0 AND 1000),
    steps_completed INTEGER NOT NULL CHECK (steps_completed BETWEEN 0 AND steps_total),
    retries_open INTEGER NOT NULL CHECK (retries_open >= 0),
    registered_at_ms INTEGER NOT NULL,
    updated_at_ms INTEGER NOT NULL,
    finished_at_ms INTEGER,
    final_commit TEXT,
    tests_passed INTEGER CHECK (tests_passed IN (0, 1)),
    review_passed INTEGER CHECK (review_passed IN (0, 1)),
    last_error TEXT,
    PRIMARY KEY (swarm_id, task_id),
    CHECK ((finished_at_ms IS NOT NULL) = (state IN ('complete', 'failed'))),
    -- What only packets have: a number, steps, and a commit at the end.
    CHECK (packet_id IS NULL OR steps_total >= 1),
    CHECK (packet_id IS NULL OR state != 'complete' OR final_commit IS NOT NULL)
) STRICT, WITHOUT ROWID;

-- Without a foreign key: the most frequent insert, made by one statement that has just read the
-- swarm.
CREATE TABLE events (
    swarm_id TEXT NOT NULL,
    event_id INTEGER NOT NULL CHECK (event_id > 0),
    kind TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    task_id TEXT,
    report_key BLOB,
    data TEXT NOT NULL,
    PRIMARY KEY (swarm_id, event_id)
) STRICT, WITHOUT ROWID;

-- A report that comes again is known by its key and answered from its event.
CREATE UNIQUE INDEX events_by_report ON events (swarm_id, task_id, report_key)
    WHERE report_key IS NOT NULL;

CREATE TABLE retries (
    swarm_id TEXT NOT NULL REFERENCES swarms (swarm_id) ON DELETE CASCADE,
    task_id TEXT NOT NULL,
    step_id TEXT NOT NULL,
    retries_made INTEGER NOT NULL CHECK (retries_made >= 0),
    state TEXT NOT NULL CHECK (state IN ('scheduled', 'due', 'closed')),
    due_at_ms INTEGER NOT NULL,
    PRIMARY KEY (swarm_id, task_id, step_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX retries_by_due_time ON retries (due_at_ms) WHERE state = 'scheduled';
