-- Handoffs: contracts, claims and their verdicts, ownership, receipts, what was learned.

ALTER TABLE tasks ADD COLUMN contract_version bigint;
ALTER TABLE assignments ADD COLUMN contract_version bigint;
-- Refused claims in a row.
ALTER TABLE assignments ADD COLUMN refusals bigint NOT NULL DEFAULT 0;
-- The claim that is being verified. Its assignment has no lease: the server holds it.
ALTER TABLE assignments ADD COLUMN claim_id bigint;

-- Every version of a contract; the highest is in force.
CREATE TABLE handoffs (
    swarm_id text COLLATE "C" NOT NULL REFERENCES swarms (swarm_id) ON DELETE CASCADE,
    task_id text COLLATE "C" NOT NULL,
    version bigint NOT NULL CHECK (version >= 1),
    hash text NOT NULL,
    body text NOT NULL,
    repo text COLLATE "C" NOT NULL,
    base_commit text NOT NULL,
    branch text,
    target text,
    -- Where the target was when the task was spawned.
    target_base text,
    policy text NOT NULL,
    strategy text COLLATE "C",
    reason text NOT NULL,
    created_at_ms bigint NOT NULL,
    said text NOT NULL,
    -- The same for all work trees of a repository.
    repo_id text NOT NULL,
    PRIMARY KEY (swarm_id, task_id, version)
);

CREATE TABLE claims (
    swarm_id text COLLATE "C" NOT NULL REFERENCES swarms (swarm_id) ON DELETE CASCADE,
    task_id text COLLATE "C" NOT NULL,
    claim_id bigint NOT NULL CHECK (claim_id >= 1),
    epoch bigint NOT NULL,
    worker text NOT NULL,
    state text NOT NULL CHECK (state IN ('waiting', 'taken', 'accepted', 'refused', 'void')),
    contract_version bigint NOT NULL,
    words text NOT NULL,
    asked_at_ms bigint NOT NULL,
    tries bigint NOT NULL,
    taken_by text,
    taken_until_ms bigint,
    verdict text,
    ended_at_ms bigint,
    heard_at_ms bigint,
    PRIMARY KEY (swarm_id, task_id, claim_id),
    CHECK ((ended_at_ms IS NULL) = (state IN ('waiting', 'taken'))),
    CHECK (state != 'taken' OR (taken_by IS NOT NULL AND taken_until_ms IS NOT NULL)),
    CHECK (heard_at_ms IS NULL OR ended_at_ms IS NOT NULL)
);

-- What a verifier takes next: the oldest first.
CREATE INDEX claims_open ON claims (asked_at_ms) WHERE ended_at_ms IS NULL;

-- Who may write what, as long as the task is in flight.
CREATE TABLE reservations (
    swarm_id text COLLATE "C" NOT NULL REFERENCES swarms (swarm_id) ON DELETE CASCADE,
    task_id text COLLATE "C" NOT NULL,
    repo text COLLATE "C" NOT NULL,
    patterns text NOT NULL,
    reserved_at_ms bigint NOT NULL,
    PRIMARY KEY (swarm_id, task_id)
);

CREATE INDEX reservations_by_repo ON reservations (repo);

CREATE TABLE scope_requests (
    swarm_id text COLLATE "C" NOT NULL REFERENCES swarms (swarm_id) ON DELETE CASCADE,
    request_id bigint NOT NULL CHECK (request_id >= 1),
    task_id text COLLATE "C" NOT NULL,
    epoch bigint NOT NULL,
    worker text NOT NULL,
    paths text NOT NULL,
    reason text NOT NULL,
    state text NOT NULL CHECK (state IN ('open', 'granted', 'refused')),
    asked_at_ms bigint NOT NULL,
    decided_at_ms bigint,
    decision text,
    question_id bigint,
    PRIMARY KEY (swarm_id, request_id),
    CHECK ((decided_at_ms IS NULL) = (state = 'open'))
);

CREATE INDEX scope_requests_open ON scope_requests (swarm_id, request_id) WHERE state = 'open';
CREATE INDEX scope_requests_asked ON scope_requests (swarm_id, question_id)
    WHERE state = 'open';

CREATE TABLE waivers (
    swarm_id text COLLATE "C" NOT NULL REFERENCES swarms (swarm_id) ON DELETE CASCADE,
    task_id text COLLATE "C" NOT NULL,
    check_name text COLLATE "C" NOT NULL,
    subject text COLLATE "C" NOT NULL,
    reason text NOT NULL,
    granted_by text NOT NULL,
    at_ms bigint NOT NULL,
    PRIMARY KEY (swarm_id, task_id, check_name, subject)
);

-- Without a foreign key: a proof outlives the swarm.
CREATE TABLE receipts (
    receipt_id text COLLATE "C" NOT NULL PRIMARY KEY,
    swarm_id text COLLATE "C" NOT NULL,
    task_id text COLLATE "C" NOT NULL,
    title text NOT NULL,
    body text NOT NULL,
    accepted_at_ms bigint NOT NULL,
    repo_id text COLLATE "C" NOT NULL,
    commit_sha text NOT NULL
);

CREATE INDEX receipts_of_task ON receipts (swarm_id, task_id, accepted_at_ms);
CREATE INDEX receipts_by_age ON receipts (accepted_at_ms, receipt_id);
CREATE INDEX receipts_of_repo ON receipts (repo_id, accepted_at_ms, commit_sha);

-- One for each completion, refusal and failure; without a foreign key, as they teach later swarms.
CREATE TABLE signals (
    strategy text COLLATE "C" NOT NULL,
    at_ms bigint NOT NULL,
    swarm_id text COLLATE "C" NOT NULL,
    task_id text COLLATE "C" NOT NULL,
    epoch bigint NOT NULL,
    number bigint NOT NULL,
    kind text NOT NULL CHECK (kind IN ('completion', 'refusal', 'failure')),
    impact text NOT NULL CHECK (impact IN ('positive', 'negative', 'neutral')),
    violation_type text,
    details text NOT NULL,
    PRIMARY KEY (strategy, at_ms, swarm_id, task_id, epoch, number)
);

-- The sum of the signals of a strategy, older ones counting less.
CREATE TABLE strategies (
    strategy text COLLATE "C" NOT NULL PRIMARY KEY,
    wins double precision NOT NULL,
    losses double precision NOT NULL,
    samples bigint NOT NULL,
    updated_at_ms bigint NOT NULL
);
