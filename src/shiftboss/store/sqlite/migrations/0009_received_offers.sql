-- Whether a poll has received the offer. An offer that no poll has received can be taken over.
ALTER TABLE assignments ADD COLUMN received INTEGER NOT NULL DEFAULT 1 CHECK (received IN (0, 1));

CREATE INDEX assignments_not_received ON assignments (swarm_id, registered_at_ms, task_id)
    WHERE NOT received;
