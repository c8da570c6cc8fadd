-- What the invariants are checked on: the rows of one swarm, complete. For `shiftboss fsck`
-- and for the simulator; no request uses these.

-- name: swarm_ids_after
SELECT swarm_id FROM swarms WHERE swarm_id > :swarm_id ORDER BY swarm_id LIMIT :limit;

-- name: swarm_ids_of_events
SELECT DISTINCT swarm_id FROM events ORDER BY swarm_id;

-- name: all_tasks
SELECT swarm_id, task_id, title, description, priority, status, waits_for, queue_number, epoch,
    worker, checkpoint, last_error, created_at_ms, updated_at_ms, failures, contract_version
FROM tasks WHERE swarm_id = :swarm_id ORDER BY task_id;

-- name: all_dependencies
SELECT task_id, depends_on FROM task_dependencies WHERE swarm_id = :swarm_id
ORDER BY task_id, depends_on;

-- name: all_assignments
SELECT swarm_id, task_id, epoch, state, packet_id, worker, worktree, steps_total,
    steps_completed, retries_open, registered_at_ms, updated_at_ms, finished_at_ms,
    final_commit, tests_passed, review_passed, last_error, lease_expires_at_ms, lease_seconds,
    context_usage, current_step, commits, spec_path, contract_version, refusals, claim_id,
    received
FROM assignments WHERE swarm_id = :swarm_id ORDER BY task_id;

-- name: all_workers
SELECT swarm_id, name, task_id, available, registered_at_ms, last_activity_at_ms
FROM workers WHERE swarm_id = :swarm_id ORDER BY name;

-- name: all_totals
SELECT what, total FROM swarm_totals WHERE swarm_id = :swarm_id ORDER BY what;

-- name: all_queues
SELECT priority, ready, last_number FROM queues WHERE swarm_id = :swarm_id ORDER BY priority;

-- name: all_claims
SELECT swarm_id, task_id, claim_id, epoch, worker, state, contract_version, words, asked_at_ms,
    tries, taken_by, taken_until_ms, verdict, ended_at_ms, heard_at_ms, taken_at_ms,
    escalated_at_ms
FROM claims WHERE swarm_id = :swarm_id ORDER BY task_id, claim_id;

-- name: all_contracts
SELECT h.task_id, h.version, h.repo_id, h.repo_name, h.review
FROM handoffs AS h WHERE h.swarm_id = :swarm_id AND h.version = (
    SELECT max(o.version) FROM handoffs AS o
    WHERE o.swarm_id = h.swarm_id AND o.task_id = h.task_id)
ORDER BY h.task_id;

-- name: all_reviews
SELECT swarm_id, task_id, receipt_id, commit_sha, state, requested_at_ms, decided_by,
    decided_at_ms, reason
FROM reviews WHERE swarm_id = :swarm_id ORDER BY task_id;

-- name: all_open_questions
SELECT task_id, question_id FROM questions WHERE swarm_id = :swarm_id AND answer IS NULL
ORDER BY task_id, question_id;

-- name: all_landings
SELECT swarm_id, task_id, receipt_id, commit_sha, accepted_at_ms, target, landed_commit,
    landed_at_ms
FROM landings WHERE swarm_id = :swarm_id ORDER BY task_id;

-- name: all_holds
SELECT task_id, kind FROM holds WHERE swarm_id = :swarm_id ORDER BY task_id, kind;

-- name: attempts_after_failed_ci
SELECT task_id, epoch FROM contract_attempts WHERE swarm_id = :swarm_id AND ci_failed = :failed
ORDER BY task_id;

-- name: all_receipts
SELECT receipt_id, swarm_id, task_id, title, body, accepted_at_ms, repo_id, commit_sha, planned
FROM receipts WHERE swarm_id = :swarm_id ORDER BY task_id, accepted_at_ms, receipt_id;

-- name: all_reservations
SELECT swarm_id, task_id, repo, patterns FROM reservations ORDER BY repo, swarm_id, task_id;

-- name: open_retry_counts
SELECT task_id, count(*) FROM retries WHERE swarm_id = :swarm_id AND state <> 'closed'
GROUP BY task_id ORDER BY task_id;

-- name: event_span
SELECT count(*), min(event_id), max(event_id) FROM events WHERE swarm_id = :swarm_id;
