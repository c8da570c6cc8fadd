-- A worker disputes its contract: a question of its own kind, counted for the strategy of the task.

-- What is disputed, as JSON: kind, reason, evidence, commit. NULL for other questions.
ALTER TABLE questions ADD COLUMN dispute TEXT;
ALTER TABLE strategies ADD COLUMN disputes INTEGER NOT NULL DEFAULT 0 CHECK (disputes >= 0);

-- SQLite cannot change a constraint, so the table is made again.
CREATE TABLE new_signals (
    strategy TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    swarm_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    number INTEGER NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('completion', 'refusal', 'failure', 'dispute')),
    impact TEXT NOT NULL CHECK (impact IN ('positive', 'negative', 'neutral')),
    violation_type TEXT,
    details TEXT NOT NULL,
    PRIMARY KEY (strategy, at_ms, swarm_id, task_id, epoch, number),
    CHECK (kind != 'dispute' OR impact = 'neutral')
) STRICT, WITHOUT ROWID;

INSERT INTO new_signals (strategy, at_ms, swarm_id, task_id, epoch, number, kind, impact,
    violation_type, details)
SELECT strategy, at_ms, swarm_id, task_id, epoch, number, kind, impact, violation_type, details
FROM signals;

DROP TABLE signals;
ALTER TABLE new_signals RENAME TO signals;
