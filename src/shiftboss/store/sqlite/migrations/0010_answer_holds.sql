-- A task that waits for the answer to its question has a hold of its own, so that an answer does not
-- end a pause. SQLite cannot change a constraint, so the table is made again.

CREATE TABLE new_holds (
    swarm_id TEXT NOT NULL REFERENCES swarms (swarm_id) ON DELETE CASCADE,
    task_id TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('pause', 'budget', 'answer')),
    reason TEXT NOT NULL,
    since_ms INTEGER NOT NULL,
    until_ms INTEGER,
    PRIMARY KEY (swarm_id, task_id, kind),
    CHECK (kind = 'pause' OR until_ms IS NULL)
) STRICT, WITHOUT ROWID;

INSERT INTO new_holds (swarm_id, task_id, kind, reason, since_ms, until_ms)
SELECT swarm_id, task_id,
    CASE WHEN reason = 'waits for the answer to its question' AND until_ms IS NULL
        THEN 'answer' ELSE kind END,
    reason, since_ms, until_ms
FROM holds;

DROP TABLE holds;
ALTER TABLE new_holds RENAME TO holds;

CREATE INDEX holds_by_end ON holds (until_ms) WHERE until_ms IS NOT NULL;
