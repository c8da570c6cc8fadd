-- What an operator wants to know: how many tasks of a swarm are in which status, which swarm has a
-- task of this id, why a task has not started, and which plan a swarm runs.

CREATE INDEX tasks_by_status ON tasks (swarm_id, status, task_id);
CREATE INDEX tasks_by_id ON tasks (task_id, swarm_id);
CREATE INDEX receipts_by_task ON receipts (task_id, swarm_id);

-- The plan that a swarm runs, for the commands that continue or land it.
CREATE TABLE plan_runs (
    swarm_id TEXT NOT NULL PRIMARY KEY REFERENCES swarms (swarm_id) ON DELETE CASCADE,
    plan_file TEXT NOT NULL,
    started_at_ms INTEGER NOT NULL,
    -- Whether the run lands what was accepted.
    auto_merge INTEGER NOT NULL CHECK (auto_merge IN (0, 1))
) STRICT, WITHOUT ROWID;

-- Why the last try to give a task its contract was refused. `holders` is JSON.
CREATE TABLE spawn_refusals (
    swarm_id TEXT NOT NULL REFERENCES swarms (swarm_id) ON DELETE CASCADE,
    task_id TEXT NOT NULL,
    code TEXT NOT NULL,
    detail TEXT NOT NULL,
    holders TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    PRIMARY KEY (swarm_id, task_id)
) STRICT, WITHOUT ROWID;
