-- The bus: tasks, their queue, workers, questions.

-- An attempt at a task is lost when its lease runs out. Packets have none.
ALTER TABLE assignments ADD COLUMN lease_expires_at_ms bigint;
-- What a launcher's heartbeats ask for; without one, the usual lease.
ALTER TABLE assignments ADD COLUMN lease_seconds bigint;
ALTER TABLE assignments ADD COLUMN context_usage double precision;
ALTER TABLE assignments ADD COLUMN current_step text;
-- A JSON list.
ALTER TABLE assignments ADD COLUMN commits text;
-- Where the work is described, when the orchestrator says so.
ALTER TABLE assignments ADD COLUMN spec_path text;

CREATE INDEX assignments_by_lease ON assignments (lease_expires_at_ms)
    WHERE lease_expires_at_ms IS NOT NULL;
CREATE INDEX assignments_of_packets ON assignments (swarm_id, packet_id)
    WHERE packet_id IS NOT NULL;

CREATE TABLE tasks (
    swarm_id text COLLATE "C" NOT NULL REFERENCES swarms (swarm_id) ON DELETE CASCADE,
    task_id text COLLATE "C" NOT NULL,
    title text NOT NULL,
    description text NOT NULL,
    priority bigint NOT NULL,
    status text NOT NULL CHECK (status IN (
        'open', 'queued', 'active', 'done', 'failed', 'cancelled')),
    waits_for bigint NOT NULL CHECK (waits_for >= 0),
    queue_number bigint,
    epoch bigint NOT NULL CHECK (epoch >= 0),
    worker text,
    checkpoint text,
    last_error text,
    created_at_ms bigint NOT NULL,
    updated_at_ms bigint NOT NULL,
    failures bigint NOT NULL CHECK (failures >= 0),
    PRIMARY KEY (swarm_id, task_id),
    CHECK (status != 'queued' OR queue_number IS NOT NULL),
    CHECK (status != 'active' OR (worker IS NOT NULL AND epoch >= 1))
);

-- What can be handed out: highest priority first, then the oldest.
CREATE INDEX tasks_ready ON tasks (swarm_id, priority DESC, queue_number, task_id)
    WHERE status = 'queued' AND waits_for = 0;

CREATE TABLE task_dependencies (
    swarm_id text COLLATE "C" NOT NULL REFERENCES swarms (swarm_id) ON DELETE CASCADE,
    task_id text COLLATE "C" NOT NULL,
    depends_on text COLLATE "C" NOT NULL,
    PRIMARY KEY (swarm_id, task_id, depends_on)
);

CREATE INDEX task_dependents ON task_dependencies (swarm_id, depends_on);

-- How many tasks of a priority are ready: the position of the next one without counting them.
CREATE TABLE queues (
    swarm_id text COLLATE "C" NOT NULL REFERENCES swarms (swarm_id) ON DELETE CASCADE,
    priority bigint NOT NULL,
    ready bigint NOT NULL CHECK (ready >= 0),
    last_number bigint NOT NULL,
    PRIMARY KEY (swarm_id, priority)
);

CREATE TABLE workers (
    swarm_id text COLLATE "C" NOT NULL REFERENCES swarms (swarm_id) ON DELETE CASCADE,
    name text COLLATE "C" NOT NULL,
    task_id text COLLATE "C",
    available boolean NOT NULL,
    registered_at_ms bigint NOT NULL,
    last_activity_at_ms bigint NOT NULL,
    PRIMARY KEY (swarm_id, name)
);

-- The least recently used first.
CREATE INDEX workers_free ON workers (swarm_id, last_activity_at_ms, name)
    WHERE task_id IS NULL AND available;

CREATE TABLE questions (
    swarm_id text COLLATE "C" NOT NULL REFERENCES swarms (swarm_id) ON DELETE CASCADE,
    question_id bigint NOT NULL CHECK (question_id > 0),
    task_id text COLLATE "C" NOT NULL,
    epoch bigint NOT NULL,
    worker text NOT NULL,
    contact text NOT NULL,
    question text NOT NULL,
    asked_at_ms bigint NOT NULL,
    answer text,
    answered_at_ms bigint,
    heard boolean NOT NULL,
    PRIMARY KEY (swarm_id, task_id, epoch, question_id),
    CHECK ((answer IS NULL) = (answered_at_ms IS NULL))
);

CREATE UNIQUE INDEX questions_by_id ON questions (swarm_id, question_id);
CREATE INDEX questions_open ON questions (swarm_id, asked_at_ms, question_id)
    WHERE answer IS NULL;

-- What lost attempts left behind, for the next one.
CREATE TABLE salvage (
    swarm_id text COLLATE "C" NOT NULL REFERENCES swarms (swarm_id) ON DELETE CASCADE,
    task_id text COLLATE "C" NOT NULL,
    epoch bigint NOT NULL,
    worker text NOT NULL,
    reason text NOT NULL,
    commits text NOT NULL,
    at_ms bigint NOT NULL,
    PRIMARY KEY (swarm_id, task_id, epoch)
);

-- The answers of operations that leave no event of their own to answer a repeat from.
CREATE TABLE answers (
    swarm_id text COLLATE "C" NOT NULL REFERENCES swarms (swarm_id) ON DELETE CASCADE,
    report_key bytea NOT NULL,
    words bytea NOT NULL,
    answer text NOT NULL,
    at_ms bigint NOT NULL,
    PRIMARY KEY (swarm_id, report_key)
);

CREATE INDEX answers_by_age ON answers (at_ms);
