-- Handoffs: contracts, claims and their verdicts, ownership, receipts, what was learned.

ALTER TABLE tasks ADD COLUMN contract_version INTEGER;
ALTER TABLE assignments ADD COLUMN contract_version INTEGER;
-- Refused claims in a row.
ALTER TABLE assignments ADD COLUMN refusals INTEGER NOT NULL DEFAULT 0;
-- The claim that is being verified. Its assignment has no lease: the server holds it.
ALTER TABLE assignments ADD COLUMN claim_id INTEGER;

-- Every version of a contract; the highest is in force.
CREATE TABLE handoffs (
    swarm_id TEXT NOT NULL REFERENCES swarms (swarm_id) ON DELETE CASCADE,
    task_id TEXT NOT NULL,
    version INTEGER NOT NULL CHECK (version >= 1),
    hash TEXT NOT NULL,
    body TEXT NOT NULL,
    repo TEXT NOT NULL,
    base_commit TEXT NOT NULL,
    branch TEXT,
    target TEXT,
    -- Where the target was when the task was spawned.
    target_base TEXT,
    policy TEXT NOT NULL,
    strategy TEXT,
    reason TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL,
    said TEXT NOT NULL,
    -- The same for all work trees of a repository.
    repo_id TEXT NOT NULL,
    PRIMARY KEY (swarm_id, task_id, version)
) STRICT, WITHOUT ROWID;

CREATE TABLE claims (
    swarm_id TEXT NOT NULL REFERENCES swarms (swarm_id) ON DELETE CASCADE,
    task_id TEXT NOT NULL,
    claim_id INTEGER NOT NULL CHECK (claim_id >= 1),
    epoch INTEGER NOT NULL,
    worker TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('waiting', 'taken', 'accepted', 'refused', 'void')),
    contract_version INTEGER NOT NULL,
    words TEXT NOT NULL,
    asked_at_ms INTEGER NOT NULL,
    tries INTEGER NOT NULL,
    taken_by TEXT,
    taken_until_ms INTEGER,
    verdict TEXT,
    ended_at_ms INTEGER,
    heard_at_ms INTEGER,
    PRIMARY KEY (swarm_id, task_id, claim_id),
    CHECK ((ended_at_ms IS NULL) = (state IN ('waiting', 'taken'))),
    CHECK (state != 'taken' OR (taken_by IS NOT NULL AND taken_until_ms IS NOT NULL)),
    CHECK (heard_at_ms IS NULL OR ended_at_ms IS NOT NULL)
) STRICT, WITHOUT ROWID;

-- What a verifier takes next: the oldest first.
CREATE INDEX claims_open ON claims (asked_at_ms) WHERE ended_at_ms IS NULL;

-- Who may write what, as long as the task is in flight.
CREATE TABLE reservations (
    swarm_id TEXT NOT NULL REFERENCES swarms (swarm_id) ON DELETE CASCADE,
    task_id TEXT NOT NULL,
    repo TEXT NOT NULL,
    patterns TEXT NOT NULL,
    reserved_at_ms INTEGER NOT NULL,
    PRIMARY KEY (swarm_id, task_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX reservations_by_repo ON reservations (repo);

CREATE TABLE scope_requests (
    swarm_id TEXT NOT NULL REFERENCES swarms (swarm_id) ON DELETE CASCADE,
    request_id INTEGER NOT NULL CHECK (request_id >= 1),
    task_id TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    worker TEXT NOT NULL,
    paths TEXT NOT NULL,
    reason TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('open', 'granted', 'refused')),
    asked_at_ms INTEGER NOT NULL,
    decided_at_ms INTEGER,
    decision TEXT,
    question_id INTEGER,
    PRIMARY KEY (swarm_id, request_id),
    CHECK ((decided_at_ms IS NULL) = (state = 'open'))
) STRICT, WITHOUT ROWID;

CREATE INDEX scope_requests_open ON scope_requests (swarm_id, request_id) WHERE state = 'open';
CREATE INDEX scope_requests_asked ON scope_requests (swarm_id, question_id)
    WHERE state = 'open';

CREATE TABLE waivers (
    swarm_id TEXT NOT NULL REFERENCES swarms (swarm_id) ON DELETE CASCADE,
    task_id TEXT NOT NULL,
    check_name TEXT NOT NULL,
    subject TEXT NOT NULL,
    reason TEXT NOT NULL,
    granted_by TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    PRIMARY KEY (swarm_id, task_id, check_name, subject)
) STRICT, WITHOUT ROWID;

-- Without a foreign key: a proof outlives the swarm.
CREATE TABLE receipts (
    receipt_id TEXT NOT NULL PRIMARY KEY,
    swarm_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    title TEXT NOT NULL,
    body TEXT NOT NULL,
    accepted_at_ms INTEGER NOT NULL,
    repo_id TEXT NOT NULL,
    commit_sha TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX receipts_of_task ON receipts (swarm_id, task_id, accepted_at_ms);
CREATE INDEX receipts_by_age ON receipts (accepted_at_ms, receipt_id);
CREATE INDEX receipts_of_repo ON receipts (repo_id, accepted_at_ms, commit_sha);

-- One for each completion, refusal and failure; without a foreign key, as they teach later swarms.
CREATE TABLE signals (
    strategy TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    swarm_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    number INTEGER NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('completion', 'refusal', 'failure')),
    impact TEXT NOT NULL CHECK (impact IN ('positive', 'negative', 'neutral')),
    violation_type TEXT,
    details TEXT NOT NULL,
    PRIMARY KEY (strategy, at_ms, swarm_id, task_id, epoch, number)
) STRICT, WITHOUT ROWID;

-- The sum of the signals of a strategy, older ones counting less.
CREATE TABLE strategies (
    strategy TEXT NOT NULL PRIMARY KEY,
    wins REAL NOT NULL,
    losses REAL NOT NULL,
    samples INTEGER NOT NULL,
    updated_at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
