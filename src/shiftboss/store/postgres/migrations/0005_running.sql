-- Running a plan: what it costs, what may be spent, what is held back, what has landed. A task_id of
-- '' means the whole swarm.

-- What each process of an attempt has used so far. Without a price: nobody knows it.
CREATE TABLE process_usage (
    swarm_id text COLLATE "C" NOT NULL REFERENCES swarms (swarm_id) ON DELETE CASCADE,
    task_id text COLLATE "C" NOT NULL,
    epoch bigint NOT NULL CHECK (epoch >= 1),
    process bigint NOT NULL CHECK (process >= 1),
    input_tokens bigint NOT NULL CHECK (input_tokens >= 0),
    output_tokens bigint NOT NULL CHECK (output_tokens >= 0),
    cached_tokens bigint NOT NULL CHECK (cached_tokens >= 0),
    microdollars bigint CHECK (microdollars >= 0),
    at_ms bigint NOT NULL,
    PRIMARY KEY (swarm_id, task_id, epoch, process)
);

-- The sums of a task and of the swarm, so that nobody has to add up.
CREATE TABLE usage_totals (
    swarm_id text COLLATE "C" NOT NULL REFERENCES swarms (swarm_id) ON DELETE CASCADE,
    task_id text COLLATE "C" NOT NULL,
    input_tokens bigint NOT NULL CHECK (input_tokens >= 0),
    output_tokens bigint NOT NULL CHECK (output_tokens >= 0),
    cached_tokens bigint NOT NULL CHECK (cached_tokens >= 0),
    microdollars bigint NOT NULL CHECK (microdollars >= 0),
    unpriced_tokens bigint NOT NULL CHECK (unpriced_tokens >= 0),
    PRIMARY KEY (swarm_id, task_id)
);

CREATE TABLE budgets (
    swarm_id text COLLATE "C" NOT NULL REFERENCES swarms (swarm_id) ON DELETE CASCADE,
    task_id text COLLATE "C" NOT NULL,
    tokens bigint CHECK (tokens >= 1),
    microdollars bigint CHECK (microdollars >= 1),
    by_operator boolean NOT NULL,
    question_id bigint,
    PRIMARY KEY (swarm_id, task_id)
);

-- What is not handed out, and why.
CREATE TABLE holds (
    swarm_id text COLLATE "C" NOT NULL REFERENCES swarms (swarm_id) ON DELETE CASCADE,
    task_id text COLLATE "C" NOT NULL,
    kind text NOT NULL CHECK (kind IN ('pause', 'budget')),
    reason text NOT NULL,
    since_ms bigint NOT NULL,
    until_ms bigint,
    PRIMARY KEY (swarm_id, task_id, kind),
    CHECK (kind = 'pause' OR until_ms IS NULL)
);

CREATE INDEX holds_by_end ON holds (until_ms) WHERE until_ms IS NOT NULL;

-- One row for each accepted task, complete once it has landed.
CREATE TABLE landings (
    swarm_id text COLLATE "C" NOT NULL REFERENCES swarms (swarm_id) ON DELETE CASCADE,
    task_id text COLLATE "C" NOT NULL,
    receipt_id text COLLATE "C" NOT NULL,
    commit_sha text COLLATE "C" NOT NULL,
    accepted_at_ms bigint NOT NULL,
    target text,
    landed_commit text,
    landed_at_ms bigint,
    PRIMARY KEY (swarm_id, task_id),
    CHECK ((landed_commit IS NULL) = (landed_at_ms IS NULL)),
    CHECK ((landed_commit IS NULL) = (target IS NULL))
);

CREATE INDEX landings_to_come ON landings (swarm_id, accepted_at_ms, receipt_id)
    WHERE landed_commit IS NULL;

INSERT INTO landings (swarm_id, task_id, receipt_id, commit_sha, accepted_at_ms)
SELECT r.swarm_id, r.task_id, r.receipt_id, r.commit_sha, r.accepted_at_ms
FROM receipts AS r JOIN swarms AS s ON s.swarm_id = r.swarm_id
WHERE r.receipt_id = (
    SELECT o.receipt_id FROM receipts AS o
    WHERE o.swarm_id = r.swarm_id AND o.task_id = r.task_id
    ORDER BY o.accepted_at_ms DESC, o.receipt_id DESC LIMIT 1);
