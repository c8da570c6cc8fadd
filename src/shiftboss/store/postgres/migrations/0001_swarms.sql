-- Times are whole milliseconds since 1970 in UTC. State rules are repeated here as constraints, so
-- that a mistake in the code is refused by the database.
-- Ids are compared byte by byte ("C"), as SQLite does it: lists have the same order everywhere.

CREATE TABLE swarms (
    swarm_id text COLLATE "C" NOT NULL PRIMARY KEY,
    feature text NOT NULL,
    manifest_path text NOT NULL,
    auto_merge boolean NOT NULL,
    notify_on_complete boolean NOT NULL,
    workers_expected bigint CHECK (workers_expected >= 1),
    created_at_ms bigint NOT NULL,
    completed_at_ms bigint
);

CREATE INDEX swarms_by_age ON swarms (created_at_ms, swarm_id);
CREATE INDEX swarms_by_completion ON swarms (completed_at_ms) WHERE completed_at_ms IS NOT NULL;

-- The current attempt at each task; former attempts are in the events.
CREATE TABLE assignments (
    swarm_id text COLLATE "C" NOT NULL REFERENCES swarms (swarm_id) ON DELETE CASCADE,
    task_id text COLLATE "C" NOT NULL,
    epoch bigint NOT NULL CHECK (epoch >= 1),
    state text NOT NULL CHECK (state IN (
        'assigned', 'executing', 'verifying', 'self_review', 'complete', 'failed', 'blocked',
        'waiting')),
    packet_id bigint CHECK (packet_id > 0),
    worker text NOT NULL,
    worktree text NOT NULL,
    steps_total bigint NOT NULL CHECK (steps_total BETWEEN 0 AND 1000),
    steps_completed bigint NOT NULL CHECK (steps_completed BETWEEN 0 AND steps_total),
    retries_open bigint NOT NULL CHECK (retries_open >= 0),
    registered_at_ms bigint NOT NULL,
    updated_at_ms bigint NOT NULL,
    finished_at_ms bigint,
    final_commit text,
    tests_passed boolean,
    review_passed boolean,
    last_error text,
    PRIMARY KEY (swarm_id, task_id),
    CHECK ((finished_at_ms IS NOT NULL) = (state IN ('complete', 'failed'))),
    -- What only packets have: a number, steps, and a commit at the end.
    CHECK (packet_id IS NULL OR steps_total >= 1),
    CHECK (packet_id IS NULL OR state != 'complete' OR final_commit IS NOT NULL)
);

-- Without a foreign key: the most frequent insert, made by one statement that has just read the
-- swarm.
CREATE TABLE events (
    swarm_id text COLLATE "C" NOT NULL,
    event_id bigint NOT NULL CHECK (event_id > 0),
    kind text NOT NULL,
    at_ms bigint NOT NULL,
    task_id text COLLATE "C",
    report_key bytea,
    data text NOT NULL,
    PRIMARY KEY (swarm_id, event_id)
);

-- A report that comes again is known by its key and answered from its event.
CREATE UNIQUE INDEX events_by_report ON events (swarm_id, task_id, report_key)
    WHERE report_key IS NOT NULL;

CREATE TABLE retries (
    swarm_id text COLLATE "C" NOT NULL REFERENCES swarms (swarm_id) ON DELETE CASCADE,
    task_id text COLLATE "C" NOT NULL,
    step_id text COLLATE "C" NOT NULL,
    retries_made bigint NOT NULL CHECK (retries_made >= 0),
    state text NOT NULL CHECK (state IN ('scheduled', 'due', 'closed')),
    due_at_ms bigint NOT NULL,
    PRIMARY KEY (swarm_id, task_id, step_id)
);

CREATE INDEX retries_by_due_time ON retries (due_at_ms) WHERE state = 'scheduled';
