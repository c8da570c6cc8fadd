-- PostgreSQL has many writers at a time, on several servers: a swarm is locked before it is read.

-- name: hold_swarm
-- A separate statement before the queries that take. A statement that waits for a row lock keeps the
-- snapshot from before the wait, so locking inside a join would show the assignment as it was before
-- the other server's commit.
SELECT 1 FROM swarms AS s WHERE s.swarm_id = :swarm_id FOR UPDATE OF s;

-- name: limit_lock_wait
-- Until the end of the transaction.
SELECT set_config('lock_timeout', :milliseconds, true);

-- name: announce
-- Part of the transaction: the other servers are notified after the commit, or not at all.
SELECT pg_notify(:channel, :payload);

-- name: newest_events
-- For a server that was disconnected from the others: the newest event of each swarm, the most
-- recently active swarms first. One index look-up per swarm.
SELECT e.swarm_id, e.event_id, e.kind, e.at_ms, e.data, e.actor
FROM swarms AS s CROSS JOIN LATERAL (
    SELECT swarm_id, event_id, kind, at_ms, data, actor FROM events
    WHERE swarm_id = s.swarm_id ORDER BY event_id DESC LIMIT 1) AS e
ORDER BY e.at_ms DESC LIMIT :limit;

-- name: free_workers
-- The workers that can take a task, the least recently used first. As in SQLite, but with a boolean.
SELECT swarm_id, name, task_id, available, registered_at_ms, last_activity_at_ms
FROM workers WHERE swarm_id = :swarm_id AND task_id IS NULL AND available
ORDER BY last_activity_at_ms, name LIMIT :limit;

-- name: last_queue_number
-- Read and written in two statements: the write costs no round trip of its own.
SELECT last_number FROM queues WHERE swarm_id = :swarm_id AND priority = :priority;

-- name: put_queue_number
INSERT INTO queues (swarm_id, priority, ready, last_number)
VALUES (:swarm_id, :priority, 0, :last_number)
ON CONFLICT (swarm_id, priority) DO UPDATE SET last_number = excluded.last_number;

-- name: task_of_worker
-- The task that a worker holds, as `task` gives it. No join: a plan that PostgreSQL made while there
-- were few tasks may look for the right one among all tasks of the swarm.
SELECT swarm_id, task_id, title, description, priority, status, waits_for, queue_number, epoch,
    worker, checkpoint, last_error, created_at_ms, updated_at_ms, failures, contract_version
FROM tasks WHERE swarm_id = :swarm_id AND task_id = (
    SELECT task_id FROM workers WHERE swarm_id = :swarm_id AND name = :name);

-- name: dependents
-- No join, for the same reason.
SELECT swarm_id, task_id, title, description, priority, status, waits_for, queue_number, epoch,
    worker, checkpoint, last_error, created_at_ms, updated_at_ms, failures, contract_version
FROM tasks WHERE swarm_id = :swarm_id AND task_id = ANY (ARRAY (
    SELECT task_id FROM task_dependencies
    WHERE swarm_id = :swarm_id AND depends_on = :task_id))
ORDER BY task_id;

-- name: next_task
-- Two rows: the second is the next one after the first was handed out, which is known then without
-- another round trip.
SELECT swarm_id, task_id, title, description, priority, status, waits_for, queue_number, epoch,
    worker, checkpoint, last_error, created_at_ms, updated_at_ms, failures, contract_version
FROM tasks WHERE swarm_id = :swarm_id AND status = 'queued' AND waits_for = 0
    -- Nothing is handed out in a chain that is halted.
    AND (contract_version IS NULL OR NOT EXISTS (
        SELECT 1 FROM repo_locks AS l JOIN halted_repos AS h ON h.repo = l.repo
        WHERE l.swarm_id = tasks.swarm_id AND l.task_id = tasks.task_id))
    -- Nor a task that is held back.
    AND NOT EXISTS (SELECT 1 FROM holds AS w
        WHERE w.swarm_id = tasks.swarm_id AND w.task_id = tasks.task_id)
ORDER BY priority DESC, queue_number, task_id
-- Nothing of a swarm on hold. A separate query, because a condition would run for every task.
LIMIT CASE WHEN EXISTS (
    SELECT 1 FROM holds WHERE swarm_id = :swarm_id AND task_id = '') THEN 0 ELSE 2 END;

-- name: undelivered_answers
SELECT swarm_id, question_id, task_id, epoch, worker, contact, question, asked_at_ms, answer,
    answered_at_ms, dispute
FROM questions WHERE swarm_id = :swarm_id AND task_id = :task_id AND epoch = :epoch
    AND answer IS NOT NULL
    AND NOT heard;

-- name: mark_answers_delivered
UPDATE questions SET heard = true
WHERE swarm_id = :swarm_id AND task_id = :task_id AND epoch = :epoch
    AND answer IS NOT NULL AND NOT heard;

-- name: renew_expired_leases
-- The minimum of two numbers has a different name in each dialect.
UPDATE assignments SET lease_expires_at_ms =
    :now_ms + 1000 * least(coalesce(lease_seconds, :grace_seconds), :grace_seconds)
WHERE lease_expires_at_ms <= :now_ms;

-- name: database_clock
-- Microseconds. SQLite has no clock of its own. now() would be the start of the transaction.
SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;

-- name: hold_repo
-- Swarms on several servers may share a repo: reservations wait for each other.
SELECT pg_advisory_xact_lock(hashtextextended(:repo, 0));

-- name: take_strategy
-- Swarms on several servers share one record. It is created if necessary, because a missing row
-- cannot be locked.
INSERT INTO strategies (strategy, wins, losses, samples, updated_at_ms)
VALUES (:strategy, 0, 0, 0, 0)
ON CONFLICT (strategy) DO UPDATE SET samples = strategies.samples
RETURNING strategy, wins, losses, samples, updated_at_ms, disputes;

-- name: hold_term
-- Until the end of the transaction no other server can become the leader. Renewing the lease does
-- not wait for this lock.
SELECT 1 FROM leadership WHERE term = :term FOR KEY SHARE;

-- name: take_lead
-- When the lease is over, or nobody can hold it any more:
-- - The process of PostgreSQL that served the leader is gone, as after the death of the leader. If it
--   lives and has only lost its connection, its old term keeps it from committing anything.
-- - The lease ends too far in the future: the clock of the database was set back.
-- - This server had it, lost its connection, and has stopped its duties.
WITH clock AS (SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms)
UPDATE leadership SET term = term + 1, leader = :node, backend_pid = pg_backend_pid(),
    expires_at_ms = clock.now_ms + :lead_ms
FROM clock
WHERE expires_at_ms <= clock.now_ms
    OR NOT EXISTS (SELECT 1 FROM pg_stat_activity WHERE pid = backend_pid)
    OR expires_at_ms > clock.now_ms + :lead_ms_max
    OR leader = :node
RETURNING term;

-- name: lead_left_ms
SELECT expires_at_ms - (extract(epoch FROM clock_timestamp()) * 1000)::bigint FROM leadership;

-- name: renew_lead
-- No row: another server leads.
UPDATE leadership
SET expires_at_ms = (extract(epoch FROM clock_timestamp()) * 1000)::bigint + :lead_ms
WHERE term = :term;

-- name: release_lead
UPDATE leadership SET expires_at_ms = 0 WHERE term = :term;
