-- The bus: tasks, their queue, workers, questions.

-- An attempt at a task is lost when its lease runs out. Packets have none.
ALTER TABLE assignments ADD COLUMN lease_expires_at_ms INTEGER;
-- What a launcher's heartbeats ask for; without one, the usual lease.
ALTER TABLE assignments ADD COLUMN lease_seconds INTEGER;
ALTER TABLE assignments ADD COLUMN context_usage REAL;
ALTER TABLE assignments ADD COLUMN current_step TEXT;
-- A JSON list.
ALTER TABLE assignments ADD COLUMN commits TEXT;
-- Where the work is described, when the orchestrator says so.
ALTER TABLE assignments ADD COLUMN spec_path TEXT;

CREATE INDEX assignments_by_lease ON assignments (lease_expires_at_ms)
    WHERE lease_expires_at_ms IS NOT NULL;
CREATE INDEX assignments_of_packets ON assignments (swarm_id, packet_id)
    WHERE packet_id IS NOT NULL;

CREATE TABLE tasks (
    swarm_id TEXT NOT NULL REFERENCES swarms (swarm_id) ON DELETE CASCADE,
    task_id TEXT NOT NULL,
    title TEXT NOT NULL,
    description TEXT NOT NULL,
    priority INTEGER NOT NULL,
    status TEXT NOT NULL CHECK (status IN (
        'open', 'queued', 'active', 'done', 'failed', 'cancelled')),
    waits_for INTEGER NOT NULL CHECK (waits_for >= 0),
    queue_number INTEGER,
    epoch INTEGER NOT NULL CHECK (epoch >= 0),
    worker TEXT,
    checkpoint TEXT,
    last_error TEXT,
    created_at_ms INTEGER NOT NULL,
    updated_at_ms INTEGER NOT NULL,
    failures INTEGER NOT NULL CHECK (failures >= 0),
    PRIMARY KEY (swarm_id, task_id),
    CHECK (status != 'queued' OR queue_number IS NOT NULL),
    CHECK (status != 'active' OR (worker IS NOT NULL AND epoch >= 1))
) STRICT, WITHOUT ROWID;

-- What can be handed out: highest priority first, then the oldest.
CREATE INDEX tasks_ready ON tasks (swarm_id, priority DESC, queue_number, task_id)
    WHERE status = 'queued' AND waits_for = 0;

CREATE TABLE task_dependencies (
    swarm_id TEXT NOT NULL REFERENCES swarms (swarm_id) ON DELETE CASCADE,
    task_id TEXT NOT NULL,
    depends_on TEXT NOT NULL,
    PRIMARY KEY (swarm_id, task_id, depends_on)
) STRICT, WITHOUT ROWID;

CREATE INDEX task_dependents ON task_dependencies (swarm_id, depends_on);

-- How many tasks of a priority are ready: the position of the next one without counting them.
CREATE TABLE queues (
    swarm_id TEXT NOT NULL REFERENCES swarms (swarm_id) ON DELETE CASCADE,
    priority INTEGER NOT NULL,
    ready INTEGER NOT NULL CHECK (ready >= 0),
    last_number INTEGER NOT NULL,
    PRIMARY KEY (swarm_id, priority)
) STRICT, WITHOUT ROWID;

CREATE TABLE workers (
    swarm_id TEXT NOT NULL REFERENCES swarms (swarm_id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    task_id TEXT,
    available INTEGER NOT NULL CHECK (available IN (0, 1)),
    registered_at_ms INTEGER NOT NULL,
    last_activity_at_ms INTEGER NOT NULL,
    PRIMARY KEY (swarm_id, name)
) STRICT, WITHOUT ROWID;

-- The least recently used first.
CREATE INDEX workers_free ON workers (swarm_id, last_activity_at_ms, name)
    WHERE task_id IS NULL AND available = 1;

CREATE TABLE questions (
    swarm_id TEXT NOT NULL REFERENCES swarms (swarm_id) ON DELETE CASCADE,
    question_id INTEGER NOT NULL CHECK (question_id > 0),
    task_id TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    worker TEXT NOT NULL,
    contact TEXT NOT NULL,
    question TEXT NOT NULL,
    asked_at_ms INTEGER NOT NULL,
    answer TEXT,
    answered_at_ms INTEGER,
    heard INTEGER NOT NULL CHECK (heard IN (0, 1)),
    PRIMARY KEY (swarm_id, task_id, epoch, question_id),
    CHECK ((answer IS NULL) = (answered_at_ms IS NULL))
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX questions_by_id ON questions (swarm_id, question_id);
CREATE INDEX questions_open ON questions (swarm_id, asked_at_ms, question_id)
    WHERE answer IS NULL;

-- What lost attempts left behind, for the next one.
CREATE TABLE salvage (
    swarm_id TEXT NOT NULL REFERENCES swarms (swarm_id) ON DELETE CASCADE,
    task_id TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    worker TEXT NOT NULL,
    reason TEXT NOT NULL,
    commits TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    PRIMARY KEY (swarm_id, task_id, epoch)
) STRICT, WITHOUT ROWID;

-- The answers of operations that leave no event of their own to answer a repeat from.
CREATE TABLE answers (
    swarm_id TEXT NOT NULL REFERENCES swarms (swarm_id) ON DELETE CASCADE,
    report_key BLOB NOT NULL,
    words BLOB NOT NULL,
    answer TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    PRIMARY KEY (swarm_id, report_key)
) STRICT, WITHOUT ROWID;

CREATE INDEX answers_by_age ON answers (at_ms);
