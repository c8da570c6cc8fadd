-- Queries that differ in SQLite. It has one writer at a time, so taking a swarm needs no lock.

-- name: free_workers
-- The workers that can take a task, the least recently used first. SQLite has no booleans.
SELECT swarm_id, name, task_id, available, registered_at_ms, last_activity_at_ms
FROM workers WHERE swarm_id = :swarm_id AND task_id IS NULL AND available = 1
ORDER BY last_activity_at_ms, name LIMIT :limit;

-- name: undelivered_answers
SELECT swarm_id, question_id, task_id, epoch, worker, contact, question, asked_at_ms, answer,
    answered_at_ms, dispute
FROM questions WHERE swarm_id = :swarm_id AND task_id = :task_id AND epoch = :epoch
    AND answer IS NOT NULL
    AND heard = 0;

-- name: mark_answers_delivered
UPDATE questions SET heard = 1
WHERE swarm_id = :swarm_id AND task_id = :task_id AND epoch = :epoch
    AND answer IS NOT NULL AND heard = 0;

-- name: renew_expired_leases
-- The minimum of two numbers has a different name in each dialect.
UPDATE assignments SET lease_expires_at_ms =
    :now_ms + 1000 * min(coalesce(lease_seconds, :grace_seconds), :grace_seconds)
WHERE lease_expires_at_ms <= :now_ms;

-- name: hold_repo
-- One writer at a time: no other transaction can reserve at the same time.
SELECT 1;

-- name: take_strategy
SELECT strategy, wins, losses, samples, updated_at_ms, disputes
FROM strategies WHERE strategy = :strategy;
