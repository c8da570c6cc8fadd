-- The completion contract: repo locks, CI, milestones, halts, checkpoints.

-- The repo of the policy that the task works on, and what its CI has to say (JSON).
ALTER TABLE handoffs ADD COLUMN repo_name TEXT;
ALTER TABLE handoffs ADD COLUMN ci TEXT;
-- The model that the worker should be.
ALTER TABLE handoffs ADD COLUMN model TEXT;

-- What the contract keeps of the attempt at a task beside its state. `progress`, `ladder`,
-- `denials` and `signs` are JSON.
CREATE TABLE contract_attempts (
    swarm_id TEXT NOT NULL REFERENCES swarms (swarm_id) ON DELETE CASCADE,
    task_id TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    milestone_at_ms INTEGER NOT NULL,
    fix_attempts INTEGER NOT NULL CHECK (fix_attempts >= 0),
    ci_failed INTEGER NOT NULL CHECK (ci_failed IN (0, 1)),
    progress TEXT,
    ladder TEXT,
    denials TEXT,
    paused TEXT,
    last_commit_ms INTEGER,
    look_at_ms INTEGER,
    signs TEXT,
    tip TEXT,
    PRIMARY KEY (swarm_id, task_id)
) STRICT, WITHOUT ROWID;

-- The attempts that the timeout ladder has to look at.
CREATE INDEX contract_attempts_due ON contract_attempts (look_at_ms) WHERE look_at_ms IS NOT NULL;

-- Who works on a repo. Released by a proven DONE or by the operator.
CREATE TABLE repo_locks (
    repo TEXT NOT NULL PRIMARY KEY,
    swarm_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    since_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX repo_locks_of_task ON repo_locks (swarm_id, task_id);

-- What CI last said of a repo's branch. `green_at_ms` is when the last commit was pushed that passed.
CREATE TABLE repo_states (
    repo TEXT NOT NULL PRIMARY KEY,
    state TEXT NOT NULL CHECK (state IN ('green', 'red')),
    sha TEXT NOT NULL,
    run_id TEXT,
    swarm_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    since_ms INTEGER NOT NULL,
    green_at_ms INTEGER
) STRICT, WITHOUT ROWID;

-- The commit whose CI is followed for a task: one at a time, a new push replaces it.
CREATE TABLE ci_tracking (
    swarm_id TEXT NOT NULL REFERENCES swarms (swarm_id) ON DELETE CASCADE,
    task_id TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    repo TEXT NOT NULL,
    sha TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('waiting', 'running', 'passed', 'failed')),
    run_id TEXT,
    report TEXT,
    errors INTEGER NOT NULL,
    pushed_at_ms INTEGER NOT NULL,
    look_at_ms INTEGER,
    pause_ms INTEGER NOT NULL CHECK (pause_ms >= 0),
    PRIMARY KEY (swarm_id, task_id),
    CHECK ((look_at_ms IS NULL) = (state IN ('passed', 'failed')))
) STRICT, WITHOUT ROWID;

CREATE INDEX ci_tracking_open ON ci_tracking (look_at_ms) WHERE look_at_ms IS NOT NULL;
CREATE INDEX ci_tracking_of_sha ON ci_tracking (repo, sha);

-- The pushed commits of a repo in their order, to find the one that broke another.
CREATE TABLE pushes (
    repo TEXT NOT NULL,
    number INTEGER NOT NULL CHECK (number >= 1),
    sha TEXT NOT NULL,
    swarm_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    PRIMARY KEY (repo, number)
) STRICT, WITHOUT ROWID;

-- A fatal failure stops the chain until the operator lifts it.
CREATE TABLE halts (
    halt_id INTEGER NOT NULL PRIMARY KEY,
    repos TEXT NOT NULL,
    reason TEXT NOT NULL,
    swarm_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    lifted_at_ms INTEGER
) STRICT;

CREATE INDEX halts_in_force ON halts (halt_id) WHERE lifted_at_ms IS NULL;

-- The repos of the halts in force: nothing is handed out in them.
CREATE TABLE halted_repos (
    halt_id INTEGER NOT NULL REFERENCES halts (halt_id),
    repo TEXT NOT NULL,
    PRIMARY KEY (repo, halt_id)
) STRICT, WITHOUT ROWID;

-- Where each attempt stood last.
CREATE TABLE checkpoints (
    swarm_id TEXT NOT NULL REFERENCES swarms (swarm_id) ON DELETE CASCADE,
    task_id TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    trigger_name TEXT NOT NULL,
    body TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    PRIMARY KEY (swarm_id, task_id)
) STRICT, WITHOUT ROWID;
