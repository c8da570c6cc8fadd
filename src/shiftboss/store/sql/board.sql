-- The board: what the cards of one page need, one query for each table, for both dialects.
--
-- `ids` is a JSON object whose members are the ids of the tasks: `json_each` has a column `key` in
-- both dialects. CROSS JOIN keeps SQLite from scanning a table for them.

-- name: board_page
-- Without the descriptions and checkpoints, which may be long.
SELECT swarm_id, task_id, title, '', priority, status, waits_for, queue_number, epoch, worker, NULL,
    last_error, created_at_ms, updated_at_ms, failures, contract_version
FROM tasks WHERE swarm_id = :swarm_id AND task_id > :after ORDER BY task_id LIMIT :limit;

-- name: board_tasks
SELECT t.swarm_id, t.task_id, t.title, '', t.priority, t.status, t.waits_for, t.queue_number,
    t.epoch, t.worker, NULL, t.last_error, t.created_at_ms, t.updated_at_ms, t.failures,
    t.contract_version
FROM json_each(:ids) AS wanted CROSS JOIN tasks AS t
WHERE t.swarm_id = :swarm_id AND t.task_id = wanted.key
ORDER BY t.task_id;

-- name: board_packet_page
SELECT swarm_id, task_id, epoch, state, packet_id, worker, worktree, steps_total,
    steps_completed, retries_open, registered_at_ms, updated_at_ms, finished_at_ms,
    final_commit, tests_passed, review_passed, last_error, lease_expires_at_ms, lease_seconds,
    context_usage, current_step, commits, spec_path, contract_version, refusals, claim_id,
    received
FROM assignments WHERE swarm_id = :swarm_id AND packet_id IS NOT NULL AND task_id > :after
ORDER BY task_id LIMIT :limit;

-- name: board_assignments
SELECT a.swarm_id, a.task_id, a.epoch, a.state, a.packet_id, a.worker, a.worktree, a.steps_total,
    a.steps_completed, a.retries_open, a.registered_at_ms, a.updated_at_ms, a.finished_at_ms,
    a.final_commit, a.tests_passed, a.review_passed, a.last_error, a.lease_expires_at_ms,
    a.lease_seconds, a.context_usage, a.current_step, a.commits, a.spec_path, a.contract_version,
    a.refusals, a.claim_id, a.received
FROM json_each(:ids) AS wanted CROSS JOIN assignments AS a
WHERE a.swarm_id = :swarm_id AND a.task_id = wanted.key
ORDER BY a.task_id;

-- name: board_dependencies
-- Each with the status of the other task. The last two columns: its work waits for a review; it is
-- accepted and has not landed.
SELECT d.task_id, d.depends_on, t.status, r.state IS NOT NULL AND r.state = 'open',
    l.receipt_id IS NOT NULL AND l.landed_commit IS NULL
FROM json_each(:ids) AS wanted CROSS JOIN task_dependencies AS d
    JOIN tasks AS t ON t.swarm_id = d.swarm_id AND t.task_id = d.depends_on
    LEFT JOIN reviews AS r ON r.swarm_id = d.swarm_id AND r.task_id = d.depends_on
    LEFT JOIN landings AS l ON l.swarm_id = d.swarm_id AND l.task_id = d.depends_on
WHERE d.swarm_id = :swarm_id AND d.task_id = wanted.key
ORDER BY d.task_id, d.depends_on;

-- name: board_holds
SELECT h.swarm_id, h.task_id, h.kind, h.reason, h.since_ms, h.until_ms
FROM json_each(:ids) AS wanted CROSS JOIN holds AS h
WHERE h.swarm_id = :swarm_id AND h.task_id = wanted.key
ORDER BY h.task_id, h.kind;

-- name: board_scope_requests
SELECT asked.swarm_id, asked.request_id, asked.task_id, asked.epoch, asked.worker, asked.paths,
    asked.reason, asked.state, asked.asked_at_ms, asked.decided_at_ms, asked.decision,
    asked.question_id
FROM json_each(:questions) AS wanted CROSS JOIN scope_requests AS asked
WHERE asked.swarm_id = :swarm_id AND asked.question_id = CAST(wanted.key AS INTEGER)
    AND asked.state = 'open'
ORDER BY asked.request_id;

-- name: board_questions
SELECT q.swarm_id, q.question_id, q.task_id, q.epoch, q.worker, q.contact, q.question, q.asked_at_ms,
    q.answer, q.answered_at_ms, q.dispute
FROM json_each(:ids) AS wanted CROSS JOIN questions AS q
WHERE q.swarm_id = :swarm_id AND q.task_id = wanted.key AND q.answer IS NULL
ORDER BY q.asked_at_ms, q.question_id;

-- name: board_claims
-- The last claim of each task.
SELECT c.swarm_id, c.task_id, c.claim_id, c.epoch, c.worker, c.state, c.contract_version, '{}',
    c.asked_at_ms, c.tries, c.taken_by, c.taken_until_ms, c.verdict, c.ended_at_ms, c.heard_at_ms,
    c.taken_at_ms, c.escalated_at_ms
FROM json_each(:ids) AS wanted CROSS JOIN claims AS c
WHERE c.swarm_id = :swarm_id AND c.task_id = wanted.key
    AND c.claim_id = (SELECT max(o.claim_id) FROM claims AS o
        WHERE o.swarm_id = :swarm_id AND o.task_id = wanted.key)
ORDER BY c.task_id;

-- name: board_contract_attempts
SELECT a.swarm_id, a.task_id, a.epoch, a.milestone_at_ms, a.fix_attempts, a.ci_failed, a.progress,
    a.ladder, a.denials, a.paused, a.last_commit_ms, a.look_at_ms, a.signs, a.tip
FROM json_each(:ids) AS wanted CROSS JOIN contract_attempts AS a
WHERE a.swarm_id = :swarm_id AND a.task_id = wanted.key
ORDER BY a.task_id;

-- name: board_halts
-- The halts in force for the repos of the tasks, the oldest first.
SELECT l.task_id, h.halt_id, h.repos, h.reason, h.swarm_id, h.task_id, h.at_ms, h.lifted_at_ms
FROM halted_repos AS r
    JOIN repo_locks AS l ON l.repo = r.repo AND l.swarm_id = :swarm_id
    JOIN halts AS h ON h.halt_id = r.halt_id
ORDER BY h.halt_id;

-- name: board_spawn_refusals
SELECT s.swarm_id, s.task_id, s.code, s.detail, s.holders, s.at_ms
FROM json_each(:ids) AS wanted CROSS JOIN spawn_refusals AS s
WHERE s.swarm_id = :swarm_id AND s.task_id = wanted.key
ORDER BY s.task_id;

-- name: board_landings
SELECT l.swarm_id, l.task_id, l.receipt_id, l.commit_sha, l.accepted_at_ms, l.target,
    l.landed_commit, l.landed_at_ms
FROM json_each(:ids) AS wanted CROSS JOIN landings AS l
WHERE l.swarm_id = :swarm_id AND l.task_id = wanted.key
ORDER BY l.task_id;

-- name: board_reviews
SELECT r.swarm_id, r.task_id, r.receipt_id, r.commit_sha, r.state, r.requested_at_ms, r.decided_by,
    r.decided_at_ms, r.reason
FROM json_each(:ids) AS wanted CROSS JOIN reviews AS r
WHERE r.swarm_id = :swarm_id AND r.task_id = wanted.key
ORDER BY r.task_id;

-- name: board_usage
SELECT u.task_id, u.input_tokens, u.output_tokens, u.cached_tokens, u.microdollars,
    u.unpriced_tokens
FROM json_each(:ids) AS wanted CROSS JOIN usage_totals AS u
WHERE u.swarm_id = :swarm_id AND u.task_id = wanted.key;

-- name: board_budgets
SELECT b.swarm_id, b.task_id, b.tokens, b.microdollars, b.by_operator, b.question_id
FROM json_each(:ids) AS wanted CROSS JOIN budgets AS b
WHERE b.swarm_id = :swarm_id AND b.task_id = wanted.key;

-- name: board_ci
SELECT c.task_id, c.state, c.errors
FROM json_each(:ids) AS wanted CROSS JOIN ci_tracking AS c
WHERE c.swarm_id = :swarm_id AND c.task_id = wanted.key;

-- name: board_handoffs
-- The repo and the model of the contract in force.
SELECT h.task_id, h.repo, h.repo_name, h.model
FROM json_each(:ids) AS wanted CROSS JOIN handoffs AS h
WHERE h.swarm_id = :swarm_id AND h.task_id = wanted.key
    AND h.version = (SELECT max(o.version) FROM handoffs AS o
        WHERE o.swarm_id = :swarm_id AND o.task_id = wanted.key);

-- name: board_queue
-- The order in which queued tasks are handed out.
SELECT task_id FROM tasks WHERE swarm_id = :swarm_id AND status = 'queued' AND waits_for = 0
ORDER BY priority DESC, queue_number, task_id LIMIT :limit;

-- name: board_workers
SELECT w.name, w.task_id, w.last_activity_at_ms, a.state, a.epoch, a.lease_expires_at_ms,
    a.context_usage, a.current_step, a.registered_at_ms, a.contract_version
FROM workers AS w LEFT JOIN assignments AS a
    ON a.swarm_id = w.swarm_id AND a.task_id = w.task_id
WHERE w.swarm_id = :swarm_id AND w.name > :after ORDER BY w.name LIMIT :limit;

-- name: board_unsettled_swarms
-- Of the newest swarms, those that have something left to do or to decide.
SELECT s.swarm_id FROM (
    SELECT swarm_id, created_at_ms FROM swarms ORDER BY created_at_ms DESC, swarm_id DESC
    LIMIT :limit) AS s
WHERE EXISTS (SELECT 1 FROM tasks AS t WHERE t.swarm_id = s.swarm_id
        AND t.status IN ('open', 'queued', 'active', 'failed'))
    OR EXISTS (SELECT 1 FROM questions AS q WHERE q.swarm_id = s.swarm_id AND q.answer IS NULL)
    OR EXISTS (SELECT 1 FROM landings AS l
        WHERE l.swarm_id = s.swarm_id AND l.landed_commit IS NULL)
    OR EXISTS (SELECT 1 FROM holds AS h WHERE h.swarm_id = s.swarm_id)
ORDER BY s.created_at_ms DESC, s.swarm_id DESC;
