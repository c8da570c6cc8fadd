-- The completion contract: repo locks, CI, milestones, halts, checkpoints.

-- The repo of the policy that the task works on, and what its CI has to say (JSON).
ALTER TABLE handoffs ADD COLUMN repo_name text;
ALTER TABLE handoffs ADD COLUMN ci text;
-- The model that the worker should be.
ALTER TABLE handoffs ADD COLUMN model text;

-- What the contract keeps of the attempt at a task beside its state. `progress`, `ladder`,
-- `denials` and `signs` are JSON.
CREATE TABLE contract_attempts (
    swarm_id text COLLATE "C" NOT NULL REFERENCES swarms (swarm_id) ON DELETE CASCADE,
    task_id text COLLATE "C" NOT NULL,
    epoch bigint NOT NULL,
    milestone_at_ms bigint NOT NULL,
    fix_attempts bigint NOT NULL CHECK (fix_attempts >= 0),
    ci_failed boolean NOT NULL,
    progress text,
    ladder text,
    denials text,
    paused text,
    last_commit_ms bigint,
    look_at_ms bigint,
    signs text,
    tip text,
    PRIMARY KEY (swarm_id, task_id)
);

-- The attempts that the timeout ladder has to look at.
CREATE INDEX contract_attempts_due ON contract_attempts (look_at_ms) WHERE look_at_ms IS NOT NULL;

-- Who works on a repo. Released by a proven DONE or by the operator.
CREATE TABLE repo_locks (
    repo text COLLATE "C" NOT NULL PRIMARY KEY,
    swarm_id text COLLATE "C" NOT NULL,
    task_id text COLLATE "C" NOT NULL,
    since_ms bigint NOT NULL
);

CREATE UNIQUE INDEX repo_locks_of_task ON repo_locks (swarm_id, task_id);

-- What CI last said of a repo's branch. `green_at_ms` is when the last commit was pushed that passed.
CREATE TABLE repo_states (
    repo text COLLATE "C" NOT NULL PRIMARY KEY,
    state text NOT NULL CHECK (state IN ('green', 'red')),
    sha text COLLATE "C" NOT NULL,
    run_id text,
    swarm_id text COLLATE "C" NOT NULL,
    task_id text COLLATE "C" NOT NULL,
    since_ms bigint NOT NULL,
    green_at_ms bigint
);

-- The commit whose CI is followed for a task: one at a time, a new push replaces it.
CREATE TABLE ci_tracking (
    swarm_id text COLLATE "C" NOT NULL REFERENCES swarms (swarm_id) ON DELETE CASCADE,
    task_id text COLLATE "C" NOT NULL,
    epoch bigint NOT NULL,
    repo text COLLATE "C" NOT NULL,
    sha text COLLATE "C" NOT NULL,
    state text NOT NULL CHECK (state IN ('waiting', 'running', 'passed', 'failed')),
    run_id text,
    report text,
    errors bigint NOT NULL,
    pushed_at_ms bigint NOT NULL,
    look_at_ms bigint,
    pause_ms bigint NOT NULL CHECK (pause_ms >= 0),
    PRIMARY KEY (swarm_id, task_id),
    CHECK ((look_at_ms IS NULL) = (state IN ('passed', 'failed')))
);

CREATE INDEX ci_tracking_open ON ci_tracking (look_at_ms) WHERE look_at_ms IS NOT NULL;
CREATE INDEX ci_tracking_of_sha ON ci_tracking (repo, sha);

-- The pushed commits of a repo in their order, to find the one that broke another.
CREATE TABLE pushes (
    repo text COLLATE "C" NOT NULL,
    number bigint NOT NULL CHECK (number >= 1),
    sha text COLLATE "C" NOT NULL,
    swarm_id text COLLATE "C" NOT NULL,
    task_id text COLLATE "C" NOT NULL,
    at_ms bigint NOT NULL,
    PRIMARY KEY (repo, number)
);

-- A fatal failure stops the chain until the operator lifts it.
CREATE TABLE halts (
    halt_id bigint NOT NULL PRIMARY KEY,
    repos text NOT NULL,
    reason text NOT NULL,
    swarm_id text COLLATE "C" NOT NULL,
    task_id text COLLATE "C" NOT NULL,
    at_ms bigint NOT NULL,
    lifted_at_ms bigint
);

CREATE INDEX halts_in_force ON halts (halt_id) WHERE lifted_at_ms IS NULL;

-- The repos of the halts in force: nothing is handed out in them.
CREATE TABLE halted_repos (
    halt_id bigint NOT NULL REFERENCES halts (halt_id),
    repo text COLLATE "C" NOT NULL,
    PRIMARY KEY (repo, halt_id)
);

-- Where each attempt stood last.
CREATE TABLE checkpoints (
    swarm_id text COLLATE "C" NOT NULL REFERENCES swarms (swarm_id) ON DELETE CASCADE,
    task_id text COLLATE "C" NOT NULL,
    epoch bigint NOT NULL,
    trigger_name text NOT NULL,
    body text NOT NULL,
    at_ms bigint NOT NULL,
    PRIMARY KEY (swarm_id, task_id)
);
