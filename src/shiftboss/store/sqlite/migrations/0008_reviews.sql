-- How accepted work lands, and whether a person approves it first.

ALTER TABLE handoffs ADD COLUMN landing TEXT NOT NULL DEFAULT 'merge'
    CHECK (landing IN ('merge', 'squash'));
ALTER TABLE handoffs ADD COLUMN review TEXT NOT NULL DEFAULT 'none'
    CHECK (review IN ('none', 'required'));

-- The review of the newest accepted work of a task.
CREATE TABLE reviews (
    swarm_id TEXT NOT NULL REFERENCES swarms (swarm_id) ON DELETE CASCADE,
    task_id TEXT NOT NULL,
    receipt_id TEXT NOT NULL,
    commit_sha TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('open', 'approved', 'rejected')),
    requested_at_ms INTEGER NOT NULL,
    decided_by TEXT,
    decided_at_ms INTEGER,
    reason TEXT,
    PRIMARY KEY (swarm_id, task_id),
    CHECK ((state = 'open') = (decided_by IS NULL)),
    CHECK ((state = 'open') = (decided_at_ms IS NULL)),
    CHECK (state != 'rejected' OR reason IS NOT NULL)
) STRICT, WITHOUT ROWID;

CREATE INDEX reviews_open ON reviews (swarm_id) WHERE state = 'open';
