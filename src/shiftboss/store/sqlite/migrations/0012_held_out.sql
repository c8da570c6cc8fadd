-- Tests that only the verifier sees. They are in a table of their own, so that no query of handoffs
-- can read them.

ALTER TABLE handoffs ADD COLUMN held_out TEXT;

CREATE TABLE held_out_tests (
    swarm_id TEXT NOT NULL REFERENCES swarms (swarm_id) ON DELETE CASCADE,
    task_id TEXT NOT NULL,
    hash TEXT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (swarm_id, task_id, hash)
) STRICT, WITHOUT ROWID;
