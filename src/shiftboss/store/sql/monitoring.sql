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

-- name: traced_swarms
SELECT * FROM (
    SELECT newest.swarm_id, traces.event_id AS traced_until,
        (SELECT max(event_id) FROM events WHERE events.swarm_id = newest.swarm_id) AS last_event_id
    FROM (
        SELECT swarm_id FROM swarms ORDER BY created_at_ms DESC, swarm_id DESC LIMIT :limit
    ) AS newest LEFT JOIN exported_traces AS traces ON traces.swarm_id = newest.swarm_id
) AS swarms_with_traces WHERE last_event_id IS NOT NULL;

-- name: begin_traces
INSERT INTO traces_begun (number, at_ms) VALUES (1, :now_ms) ON CONFLICT (number) DO NOTHING;

-- name: traced_until
SELECT event_id FROM exported_traces WHERE swarm_id = :swarm_id;

-- name: put_traced_until
-- Of a swarm that is still there.
INSERT INTO exported_traces (swarm_id, event_id)
SELECT swarm_id, :event_id FROM swarms WHERE swarm_id = :swarm_id
ON CONFLICT (swarm_id) DO UPDATE SET event_id = excluded.event_id;
