-- older servers: go on
-- What a verifier could not look at, and which verifiers there are.
--
-- A verifier that cannot look at a claim (its machine lacks the repository, a tool) passes on it:
-- the claim goes to another one. `verdict`: it would refuse the claim if nobody else can look.
CREATE TABLE claim_passes (
    swarm_id TEXT NOT NULL REFERENCES swarms (swarm_id) ON DELETE CASCADE,
    task_id TEXT NOT NULL,
    claim_id INTEGER NOT NULL,
    verifier TEXT NOT NULL,
    reason TEXT NOT NULL,
    times INTEGER NOT NULL CHECK (times >= 1),
    passed_at_ms INTEGER NOT NULL,
    again_at_ms INTEGER NOT NULL,
    verdict TEXT,
    PRIMARY KEY (swarm_id, task_id, claim_id, verifier)
) STRICT, WITHOUT ROWID;

CREATE TABLE verifiers (
    name TEXT NOT NULL PRIMARY KEY,
    seen_at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

ALTER TABLE claims ADD COLUMN taken_at_ms INTEGER;
-- No verifier can look at it, so it waits for a person.
ALTER TABLE claims ADD COLUMN escalated_at_ms INTEGER;
