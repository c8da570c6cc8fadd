-- What an operator wants to know: how many tasks of a swarm are in which status, which swarm has a
-- task of this id, why a task has not started, and which plan a swarm runs.

CREATE INDEX tasks_by_status ON tasks (swarm_id, status, task_id);
CREATE INDEX tasks_by_id ON tasks (task_id, swarm_id);
CREATE INDEX receipts_by_task ON receipts (task_id, swarm_id);

-- The plan that a swarm runs, for the commands that continue or land it.
CREATE TABLE plan_runs (
    swarm_id text COLLATE "C" NOT NULL PRIMARY KEY REFERENCES swarms (swarm_id) ON DELETE CASCADE,
    plan_file text NOT NULL,
    started_at_ms bigint NOT NULL,
    -- Whether the run lands what was accepted.
    auto_merge boolean NOT NULL
);

-- Why the last try to give a task its contract was refused. `holders` is JSON.
CREATE TABLE spawn_refusals (
    swarm_id text COLLATE "C" NOT NULL REFERENCES swarms (swarm_id) ON DELETE CASCADE,
    task_id text COLLATE "C" NOT NULL,
    code text NOT NULL,
    detail text NOT NULL,
    holders text NOT NULL,
    at_ms bigint NOT NULL,
    PRIMARY KEY (swarm_id, task_id)
);
