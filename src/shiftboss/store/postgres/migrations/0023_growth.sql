-- older servers: go on
-- Deleting a task deletes its tokens and requests, without reading those of others.
CREATE INDEX scope_requests_of_task ON scope_requests (swarm_id, task_id);
CREATE INDEX tokens_of_task ON tokens (swarm_id, task_id) WHERE swarm_id IS NOT NULL;

-- Autovacuum for tables that change much or grow large. By default it waits until a fifth of a table
-- is dead: of a million tasks, that is two hundred thousand old versions, which the queries of the
-- queue step over. The small tables of live work are rewritten many times a minute.
ALTER TABLE assignments SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0);
ALTER TABLE workers SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0);
ALTER TABLE queues SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0, fillfactor = 50);
ALTER TABLE swarm_totals SET (autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE tasks SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000,
    autovacuum_analyze_scale_factor = 0.05);
-- Events are only added, and deleted from the oldest on when their time is over.
ALTER TABLE events SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 50000,
    autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
