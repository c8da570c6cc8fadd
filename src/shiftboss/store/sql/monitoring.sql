-- What is open now, over all swarms, for metrics. Each reads an index of what is open, and counts to
-- a limit; those that have to look at swarms look at the newest ones.

-- name: count_tasks
SELECT COUNT(*) FROM (
    SELECT 1 FROM (
        SELECT swarm_id, completed_at_ms FROM swarms
        ORDER BY created_at_ms DESC, swarm_id DESC LIMIT :swarms
    -- CROSS JOIN fixes the order of the tables.
    ) AS newest CROSS JOIN tasks
    WHERE tasks.swarm_id = newest.swarm_id AND newest.completed_at_ms IS NULL
        AND tasks.status = :status
    LIMIT :limit
) AS counted;

-- name: count_ready_tasks
SELECT SUM(queues.ready) FROM (
    SELECT swarm_id, completed_at_ms FROM swarms
    ORDER BY created_at_ms DESC, swarm_id DESC LIMIT :swarms
) AS newest JOIN queues ON queues.swarm_id = newest.swarm_id
WHERE newest.completed_at_ms IS NULL;

-- name: count_open_swarms
SELECT COUNT(*) FROM (
    SELECT completed_at_ms FROM swarms
    ORDER BY created_at_ms DESC, swarm_id DESC LIMIT :swarms
) AS newest WHERE completed_at_ms IS NULL;

-- name: count_live_leases
SELECT COUNT(*) FROM (
    SELECT 1 FROM assignments WHERE lease_expires_at_ms > :now_ms LIMIT :limit
) AS counted;

-- name: count_expired_leases
SELECT COUNT(*) FROM (
    SELECT 1 FROM assignments WHERE lease_expires_at_ms <= :now_ms LIMIT :limit
) AS counted;

-- name: count_open_claims
-- With the time at which the oldest was made.
SELECT COUNT(*), MIN(asked_at_ms) FROM (
    SELECT asked_at_ms FROM claims WHERE ended_at_ms IS NULL ORDER BY asked_at_ms LIMIT :limit
) AS counted;

-- name: count_pending_ci
SELECT COUNT(*) FROM (
    SELECT 1 FROM ci_tracking WHERE look_at_ms IS NOT NULL LIMIT :limit
) AS counted;

-- name: count_open_questions
SELECT COUNT(*) FROM (SELECT 1 FROM questions WHERE answer IS NULL LIMIT :limit) AS counted;

-- name: count_open_scope_requests
SELECT COUNT(*) FROM (SELECT 1 FROM scope_requests WHERE state = 'open' LIMIT :limit) AS counted;

-- name: count_open_reviews
SELECT COUNT(*) FROM (SELECT 1 FROM reviews WHERE state = 'open' LIMIT :limit) AS counted;
