-- How accepted work lands, and whether a person approves it first.

ALTER TABLE handoffs ADD COLUMN landing text NOT NULL DEFAULT 'merge'
    CHECK (landing IN ('merge', 'squash'));
ALTER TABLE handoffs ADD COLUMN review text NOT NULL DEFAULT 'none'
    CHECK (review IN ('none', 'required'));

-- The review of the newest accepted work of a task.
CREATE TABLE reviews (
    swarm_id text COLLATE "C" NOT NULL REFERENCES swarms (swarm_id) ON DELETE CASCADE,
    task_id text COLLATE "C" NOT NULL,
    receipt_id text COLLATE "C" NOT NULL,
    commit_sha text COLLATE "C" NOT NULL,
    state text NOT NULL CHECK (state IN ('open', 'approved', 'rejected')),
    requested_at_ms bigint NOT NULL,
    decided_by text,
    decided_at_ms bigint,
    reason text,
    PRIMARY KEY (swarm_id, task_id),
    CHECK ((state = 'open') = (decided_by IS NULL)),
    CHECK ((state = 'open') = (decided_at_ms IS NULL)),
    CHECK (state != 'rejected' OR reason IS NOT NULL)
);

CREATE INDEX reviews_open ON reviews (swarm_id) WHERE state = 'open';
