-- PostgreSQL has many writers at a time, on several servers: a swarm is locked before it is read.

-- name: hold_swarm
-- A statement of its own, ahead of the three below. A statement that waits for a row lock goes on
-- with the snapshot it had before the wait: locking inside a join would show the assignment as it
-- was before the other server's commit.
SELECT 1 FROM swarms AS s WHERE s.swarm_id = :swarm_id FOR UPDATE OF s;

-- name: take_swarm
SELECT swarm_id, feature, manifest_path, auto_merge, notify_on_complete, workers_expected,
    created_at_ms, completed_at_ms
FROM swarms WHERE swarm_id = :swarm_id;

-- name: take_assignment
SELECT s.swarm_id, a.task_id, a.epoch, a.state, a.packet_id, a.worker, a.worktree,
    a.steps_total, a.steps_completed, a.retries_open, a.registered_at_ms, a.updated_at_ms,
    a.finished_at_ms, a.final_commit, a.tests_passed, a.review_passed, a.last_error
FROM swarms AS s LEFT JOIN assignments AS a ON a.swarm_id = s.swarm_id AND a.task_id = :task_id
WHERE s.swarm_id = :swarm_id;

-- name: take_reported
-- The assignment and the event of an earlier delivery of the same report, in one look.
SELECT s.swarm_id, a.task_id, a.epoch, a.state, a.packet_id, a.worker, a.worktree,
    a.steps_total, a.steps_completed, a.retries_open, a.registered_at_ms, a.updated_at_ms,
    a.finished_at_ms, a.final_commit, a.tests_passed, a.review_passed, a.last_error,
    e.swarm_id, e.event_id, e.kind, e.at_ms, e.data
FROM swarms AS s LEFT JOIN assignments AS a ON a.swarm_id = s.swarm_id AND a.task_id = :task_id
    LEFT JOIN events AS e ON e.swarm_id = s.swarm_id AND e.task_id = :task_id
        AND e.report_key = :report_key
WHERE s.swarm_id = :swarm_id;

-- name: announce
-- Part of the transaction: heard by the other servers after the commit, or not at all.
SELECT pg_notify(:channel, :payload);

-- name: newest_events
-- For a server that has not heard the others for a while: the newest event of each swarm, those
-- that were busy last. One index look-up per swarm.
SELECT e.swarm_id, e.event_id, e.kind, e.at_ms, e.data
FROM swarms AS s CROSS JOIN LATERAL (
    SELECT swarm_id, event_id, kind, at_ms, data FROM events
    WHERE swarm_id = s.swarm_id ORDER BY event_id DESC LIMIT 1) AS e
ORDER BY e.at_ms DESC LIMIT :limit;
