-- older servers: go on
-- Deleting a task deletes its tokens and requests, without reading those of others.
CREATE INDEX scope_requests_of_task ON scope_requests (swarm_id, task_id);
CREATE INDEX tokens_of_task ON tokens (swarm_id, task_id) WHERE swarm_id IS NOT NULL;

-- What the query planner assumes of the tables that grow. Without it, SQLite reads all questions of a
-- swarm by the primary key to find the few that are open, because it does not know that an index of
-- the open ones is short. The figures are fixed: `ANALYZE` is never run, so that plans do not depend
-- on what happened to be in a store. `noskipscan`: a search always names the swarm.
ANALYZE sqlite_schema;

INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('assignments', 'assignments', '10000 1000 1 noskipscan'),
    ('assignments', 'assignments_not_received', '10 2 1 1 noskipscan'),
    ('assignments', 'assignments_by_lease', '1000 2 noskipscan'),
    ('assignments', 'assignments_of_packets', '10000 1000 1 noskipscan'),
    ('tasks', 'tasks', '1000000 100000 1 noskipscan'),
    ('tasks', 'tasks_by_status', '1000000 100000 1000 1 noskipscan'),
    ('tasks', 'tasks_by_id', '1000000 2 1 noskipscan'),
    ('tasks', 'tasks_ready', '1000 100 50 1 1 noskipscan'),
    ('questions', 'questions', '100000 10000 10 5 1 noskipscan'),
    ('questions', 'questions_by_id', '100000 10000 1 noskipscan'),
    ('questions', 'questions_open', '100 10 1 1 noskipscan'),
    ('claims', 'claims', '1000000 100000 2 1 noskipscan'),
    ('claims', 'claims_open', '100 1 noskipscan'),
    ('claims', 'claims_open_of_swarm', '100 10 noskipscan'),
    ('reviews', 'reviews', '100000 10000 1 noskipscan'),
    ('reviews', 'reviews_open', '100 10 noskipscan'),
    ('scope_requests', 'scope_requests', '100000 10000 1 noskipscan'),
    ('scope_requests', 'scope_requests_of_task', '100000 10000 2 noskipscan'),
    ('scope_requests', 'scope_requests_open', '100 10 1 noskipscan'),
    ('scope_requests', 'scope_requests_asked', '100 10 1 noskipscan'),
    ('landings', 'landings', '1000000 100000 1 noskipscan'),
    ('landings', 'landings_to_come', '100 10 1 1 noskipscan');

-- Read what was written.
ANALYZE sqlite_schema;
