-- Tests that only the verifier sees. They are in a table of their own, so that no query of handoffs
-- can read them.

ALTER TABLE handoffs ADD COLUMN held_out text;

CREATE TABLE held_out_tests (
    swarm_id text COLLATE "C" NOT NULL REFERENCES swarms (swarm_id) ON DELETE CASCADE,
    task_id text COLLATE "C" NOT NULL,
    hash text COLLATE "C" NOT NULL,
    body text NOT NULL,
    PRIMARY KEY (swarm_id, task_id, hash)
);
