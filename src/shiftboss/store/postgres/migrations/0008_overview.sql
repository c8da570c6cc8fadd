-- What an operator asks for: how many tasks of a swarm are in which status, and which swarm has a
-- task of this id.

CREATE INDEX tasks_by_status ON tasks (swarm_id, status);
CREATE INDEX tasks_by_id ON tasks (task_id, swarm_id);
CREATE INDEX receipts_by_task ON receipts (task_id, swarm_id);
CREATE INDEX landings_done ON landings (swarm_id, landed_at_ms) WHERE landed_commit IS NOT NULL;
